//! Slots are held, waited for, and given back by whoever dies.

use std::time::Duration;

use serde_json::Value;

use crate::support::{Started, World, within};

use super::children::{PLAY, own};

const LIMIT: Duration = Duration::from_secs(60);

fn start(world: &World, name: &str, lines: &str) -> Started {
    world.write(name, lines);
    let mut command = world.ledger(["pool", "run", "--pool", "vm", "--slots", "1", "--run-id", name, "--"]);
    command.arg(own()).args(PLAY).arg(name).env("LEDGER_POOLS", world.join("pools"));
    world.start(command)
}

fn pool(world: &World) -> Value {
    let mut command = world.ledger(["pool", "status", "--json"]);
    command.env("LEDGER_POOLS", world.join("pools"));
    let ran = world.finish(command);
    let text: Value = serde_json::from_slice(&ran.expect(0).stdout).unwrap();
    text["pools"][0].clone()
}

fn is(world: &World, what: &str, held: u64, waiting: u64) {
    within(what, LIMIT, || {
        let pool = pool(world);
        (pool["held"].as_u64(), pool["waiting"].as_u64()) == (Some(held), Some(waiting))
    });
}

#[test]
fn a_slot_is_held_waited_for_and_handed_on() {
    let world = World::new();
    let holder = start(&world, "holder", "touch in\nawait go\nexit 5");
    within("the holder is in", LIMIT, || world.join("in").exists());
    is(&world, "one holds", 1, 0);
    let waiter = start(&world, "waiter", "touch second\nexit 0");
    is(&world, "one waits", 1, 1);
    assert_eq!(pool(&world)["holders"][0]["run_id"], "holder");
    assert!(!world.join("second").exists());
    world.write("go", "");
    assert_eq!(holder.end().code, Some(5));
    assert_eq!(waiter.end().code, Some(0));
    assert!(world.join("second").exists());
    is(&world, "the pool is empty", 0, 0);
}

#[test]
fn a_killed_holder_frees_its_slot_and_its_program_is_gone() {
    let world = World::new();
    let mut holder = start(&world, "holder", "tree 0\nhang");
    within("the holder is in", LIMIT, || super::children::noted(world.path()).len() == 1);
    let waiter = start(&world, "waiter", "exit 0");
    is(&world, "one waits", 1, 1);
    holder.kill();
    holder.status();
    assert_eq!(waiter.end().code, Some(0));
    within("its program is gone", LIMIT, || {
        super::children::noted(world.path()).into_iter().all(|pid| !crate::support::is_alive(pid))
    });
}

#[test]
fn a_wide_status_is_handed_on() {
    let world = World::new();
    assert_eq!(start(&world, "wide", "exit 70000").end().code, Some(70_000));
}

#[test]
fn a_killed_waiter_costs_nobody_a_place() {
    let world = World::new();
    let holder = start(&world, "holder", "touch in\nawait go");
    within("the holder is in", LIMIT, || world.join("in").exists());
    let mut killed = start(&world, "killed", "exit 0");
    is(&world, "one waits", 1, 1);
    let next = start(&world, "next", "exit 0");
    is(&world, "two wait", 1, 2);
    killed.kill();
    killed.status();
    world.write("go", "");
    assert_eq!((holder.end().code, next.end().code), (Some(0), Some(0)));
    is(&world, "the pool is empty", 0, 0);
}
