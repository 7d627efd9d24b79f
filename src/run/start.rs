//! Everything before the first file: dead legs of this folder, the new ledger, the sinks, `run-started`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::announce;
use super::book::Book;
use super::console::Console;
use super::plan::Plan;
use super::session::Session;
use super::{RunError, finish, owners};
use crate::core::ending::LoopState;
use crate::core::event::{Body, HostSampled, RunStarted, SampledAt, SinkState};
use crate::core::ids::Epoch;
use crate::core::redact::Redactor;
use crate::core::sample::HostSample;
use crate::host::keyboard::EnterKey;
use crate::host::sampler::Sampler;
use crate::host::signals::Signals;
use crate::host::table::{ProcessTable, SharedTable};
use crate::host::tree::Mechanism;
use crate::host::{awake, clock, identity, terminal};
use crate::report::check_run;
use crate::report::style::Style;
use crate::settings::RunSettings;
use crate::sink::{self, Backend, Patience, SinkContext};
use crate::source::aftermath;
use crate::source::recovery::{self, Recovered};
use crate::store::{LedgerFolder, Writer, WriterOptions, private, remove_database};

/// A sink that is required has this long for its first answer.
const REQUIRED_WITHIN: Duration = Duration::from_secs(15);

pub async fn begin(mut settings: RunSettings, mut plan: Plan, style: Style) -> Result<Session, RunError> {
    let system = |what| move |source| RunError::System { what, source };
    // Signals first: whatever comes from here on is cancelled in order.
    let signals = Signals::listen().map_err(system("signals cannot be received"))?;
    let kept = format!("it is in the logs in '{}'", settings.logs.display());
    let console = Console::start(settings.actions.is_none() && !settings.tty, kept).map_err(system("the console cannot start"))?;
    let redactor = Redactor::new(&settings.secrets);
    for refused in redactor.refused() {
        console.say(format!("ledger: warning: {refused}"));
    }
    let disabled = disabled(&settings)?;
    if settings.tty {
        terminal::for_files().map_err(RunError::Terminal)?;
    }
    if settings.keep_awake
        && let Err(why) = awake::keep()
    {
        console.say(format!("ledger: warning: {why}"));
    }
    let epoch = Epoch::tamed(&uuid::Uuid::now_v7().to_string());
    if let Some(resumed) = &plan.resumed {
        settings.identity.leg = resumed.leg.clone();
    }
    let leg = settings.identity.leg.clone();
    // A sink that is written wrongly is found out before anything is made.
    let (backends, doubles) = open_sinks(&settings, &epoch)?;
    plan.warnings.extend(doubles);
    let folder = LedgerFolder::create(&settings.ledger)?;
    private::make_folders(&settings.logs).map_err(|error| RunError::Logs { path: settings.logs.clone(), error })?;
    let Recovered { told: recovered, unreadable } =
        recovery::recover(&folder, &settings.allow_leftover).await.map_err(RunError::History)?;
    for error in &unreadable {
        console.say(format!("ledger: warning: a ledger of an earlier run cannot be read and is left alone: {error}"));
    }
    let now = clock::now();
    let writer = Writer::create(&folder, leg.clone(), epoch.clone(), now.wall, WriterOptions::default())?;
    let obituary = aftermath::obituary(writer.path());
    // Without it a death of ledger goes without what its owners saw of it. What the run spares stands in its first event, too.
    if let Err(error) = aftermath::begin(&obituary, &settings.allow_leftover) {
        let shown = obituary.display();
        console.say(format!("ledger: warning: '{shown}' cannot be written: {error}; what is swept if ledger dies is not recorded"));
    }
    let database = writer.path().to_owned();
    let book = Book::new(writer, backends, settings.heartbeat).map_err(|error| {
        // A run that never began is no leg; what cannot be removed stays, and every report names it.
        let removed = (remove_database(&database), std::fs::remove_file(&obituary));
        tracing::debug!(path = %database.display(), ?removed, "the database of a run that never began is removed");
        system("the sinks cannot start")(error)
    })?;
    let table = SharedTable::new(ProcessTable::new(settings.reap_match.clone()));
    // The first owner is started before the run is on record, because it finds out what can hold a tree here.
    let (first_owner, containment) = owners::first_owner(&settings, &disabled, &table, &obituary).await;
    let host = identity::host_info();
    let sampler = Sampler::new(table.clone(), disks(&settings));
    let started = RunStarted {
        plan: plan.events(),
        files_planned: plan.total,
        scope: settings.scope,
        sha: settings.identity.sha.clone(),
        event: settings.identity.event.clone(),
        resolved: settings.identity.resolved.clone(),
        legs: settings.identity.legs,
        command: settings.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        host,
        containment,
        versions: versions(),
        writer: identity::own_id(),
        deadline: settings.deadline,
        heartbeat_s: settings.heartbeat,
        resumes: plan.resumed.as_ref().map(|resumed| resumed.epoch.clone()),
        carried: plan.resumed.as_ref().map(|resumed| resumed.carried.clone()).unwrap_or_default(),
        allow_leftover: settings.allow_leftover.clone(),
        recovered: recovered.clone(),
        warnings: plan.warnings.clone(),
    };
    announce::begin(&console, &settings, &plan, &recovered);
    let enter = if console.has_bar() { EnterKey::listen() } else { EnterKey::default() };
    if enter.is_heard() {
        console.say("ledger: press Enter for the last lines of the running file".to_owned());
    }
    let deadline_mono_ms = settings.deadline.map(|deadline| {
        let left = deadline.0.saturating_sub(now.wall.0);
        now.mono_ms.saturating_add_signed(left)
    });
    let mut session = Session {
        settings: Arc::new(settings),
        plan,
        console,
        redactor: Arc::new(Mutex::new(redactor)),
        book,
        signals,
        enter,
        sampler,
        style,
        table,
        obituary,
        disabled,
        next_owner: first_owner,
        parting: None,
        state: LoopState::default(),
        last_sample: HostSample::default(),
        deadline_mono_ms,
        last_beat: now,
        last_seen: now,
        in_a_hurry: false,
        ledger_error: None,
    };
    session.state.files_failed = session.carried_failures();
    let sample = session.sample();
    let bodies = vec![
        session.redacted(Body::RunStarted(Box::new(started))),
        Body::HostSampled(HostSampled { at: SampledAt::Start, sample }),
    ];
    // Asked before the first event: a run that never began leaves no leg behind, here or in a sink that did answer.
    if session.settings.require_sink
        && let Err(silent) = session.book.reachable(REQUIRED_WITHIN).await
    {
        let silent = without_secrets(silent, &session.redactor());
        finish::abandon(session).await;
        return Err(RunError::SinkSilent(silent));
    }
    // Nothing has run: a ledger that cannot take its first events is an error before anything runs.
    if let Err(error) = session.book.record(clock::now(), bodies).await {
        finish::abandon(session).await;
        return Err(error.into());
    }
    if session.settings.require_sink {
        let patience = Patience { silence: REQUIRED_WITHIN, total: REQUIRED_WITHIN };
        let states = session.book.settle(patience).await;
        let refused: Vec<SinkState> = states.into_iter().filter(|sink| sink.degraded || sink.unsent > 0).collect();
        if !refused.is_empty() {
            // Some sinks can be read and not written, which only a write shows. The leg is closed, so that nobody takes it for lost.
            let refused = without_secrets(refused, &session.redactor());
            finish::refuse(session).await;
            return Err(RunError::SinkSilent(refused));
        }
    }
    Ok(session)
}

/// A path or an answer may hold what must not be shown.
fn without_secrets(sinks: Vec<SinkState>, redactor: &Redactor) -> Vec<SinkState> {
    let hidden =
        |sink: SinkState| SinkState { url: redactor.text(&sink.url), error: sink.error.map(|error| redactor.text(&error)), ..sink };
    sinks.into_iter().map(hidden).collect()
}

/// Whether every sink is one by its URL. Nothing is asked of it.
pub fn check_sinks(settings: &RunSettings) -> Result<(), RunError> {
    open_sinks(settings, &Epoch::tamed("none")).map(|_| ())
}

/// The sinks, and a warning for each that is there twice: two writers of one place would take each other for strangers.
fn open_sinks(settings: &RunSettings, epoch: &Epoch) -> Result<(Vec<Box<dyn Backend>>, Vec<String>), RunError> {
    let context = SinkContext {
        leg: settings.identity.leg.clone(),
        epoch: epoch.clone(),
        sha: settings.identity.sha.clone(),
        legs: settings.identity.legs,
        variables: settings.variables.clone(),
        describe: check_run::describe,
    };
    let mut backends: Vec<Box<dyn Backend>> = Vec::with_capacity(settings.sinks.len());
    let mut doubles = Vec::new();
    for url in &settings.sinks {
        let backend = sink::open(url, &context).map_err(RunError::Sink)?;
        let place = |backend: &dyn Backend| backend.url().trim_end_matches('/').to_owned();
        if backends.iter().any(|other| place(&**other) == place(&*backend)) {
            doubles.push(format!("the sink {} is given more than once; it is written once", backend.url()));
        } else {
            backends.push(backend);
        }
    }
    Ok((backends, doubles))
}

fn versions() -> BTreeMap<String, String> {
    let sqlite = rusqlite::version().to_owned();
    [("ledger".to_owned(), env!("CARGO_PKG_VERSION").to_owned()), ("sqlite".to_owned(), sqlite)].into()
}

fn disabled(settings: &RunSettings) -> Result<Vec<Mechanism>, RunError> {
    let named = settings.without_mechanism.iter();
    named.map(|word| Mechanism::parse(word).ok_or_else(|| RunError::Mechanism(word.clone()))).collect()
}

/// The volumes whose room is sampled.
fn disks(settings: &RunSettings) -> Vec<(String, PathBuf)> {
    let mut disks = vec![("work".to_owned(), settings.folder.clone()), ("temp".to_owned(), std::env::temp_dir())];
    disks.extend(settings.watch_disk.iter().map(|path| ("watch".to_owned(), path.clone())));
    disks
}
