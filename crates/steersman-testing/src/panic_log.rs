//! When a test panics, the logs of the servers that run at that moment are printed with it.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, Once, PoisonError};

use crate::process::log_tail;

static FOLDERS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
static HOOK: Once = Once::new();

/// While this lives, a panic prints the logs in the folder.
pub(crate) struct Registration(PathBuf);

pub(crate) fn register(folder: &Path) -> Registration {
    HOOK.call_once(|| {
        let earlier = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            earlier(panic);
            let folders = FOLDERS.lock().unwrap_or_else(PoisonError::into_inner).clone();
            for folder in folders {
                print_logs(&folder);
            }
        }));
    });
    FOLDERS.lock().unwrap_or_else(PoisonError::into_inner).push(folder.to_owned());
    Registration(folder.to_owned())
}

impl Drop for Registration {
    fn drop(&mut self) {
        FOLDERS.lock().unwrap_or_else(PoisonError::into_inner).retain(|folder| *folder != self.0);
    }
}

fn print_logs(folder: &Path) {
    let Ok(files) = std::fs::read_dir(folder) else { return };
    for path in files.filter_map(|file| Some(file.ok()?.path())) {
        if path.extension().is_some_and(|extension| extension == "log")
            && let Some(name) = path.file_stem().and_then(|name| name.to_str())
        {
            // Through the test harness's capture, so that a test that passes shows nothing.
            eprint!("{}", log_tail(name, &path));
        }
    }
}
