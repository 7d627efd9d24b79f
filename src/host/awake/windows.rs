//! Windows: a request of one thread, which stands until that thread ends.

use std::sync::mpsc::sync_channel;

use windows_sys::Win32::System::Power::{ES_CONTINUOUS, ES_SYSTEM_REQUIRED, SetThreadExecutionState};

/// Holds the machine awake until ledger ends, however it ends. The display may go dark.
pub fn keep() -> Result<(), String> {
    let (tell, told) = sync_channel(1);
    let hold = move || {
        // SAFETY: the call takes a number and knows the thread it is made on.
        let granted = unsafe { SetThreadExecutionState(ES_CONTINUOUS | ES_SYSTEM_REQUIRED) } != 0;
        // Whoever asked waits for the answer.
        let _ = tell.send(granted);
        loop {
            std::thread::park();
        }
    };
    let thread = std::thread::Builder::new().name("ledger-awake".to_owned()).spawn(hold);
    thread.map_err(|error| format!("no thread could be started: {error}"))?;
    if told.recv().unwrap_or(false) { Ok(()) } else { Err("Windows refused to stay awake".to_owned()) }
}
