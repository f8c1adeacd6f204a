//! Which function answers what, and the program around them.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{IsTerminal as _, Read as _, Write as _, stderr, stdin, stdout};
use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::{env, fs};

use serde_json::{Value, json};

use crate::{Request, Response, log};

/// What a function gives: a response, or why there is none, which ends the run. What it calls may give a `T`.
pub type Result<T = Response> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// A function of a plugin.
pub type Handler = fn(&Request) -> Result;

/// The functions of a plugin, by what they answer. What none is there for has an empty answer.
#[derive(Clone, Debug, Default)]
pub struct Handlers {
    all: BTreeMap<String, Handler>,
}

/// What a program says on a terminal.
const HINT: &str = "This is a plugin of kaws, asked on its standard input: try `kaws plugin run`.";

impl Handlers {
    /// Returns those of a plugin that adds nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Names the function that adds to the model.
    #[must_use]
    pub fn initialise(self, handler: Handler) -> Self {
        self.with("initialise".to_owned(), handler)
    }

    /// Names the function that adds files, and to machines, stacks, manifests and values.
    #[must_use]
    pub fn render(self, handler: Handler) -> Self {
        self.with("render".to_owned(), handler)
    }

    /// Names the function that runs the plugin's steps; `request.name` says which.
    #[must_use]
    pub fn deploy(self, handler: Handler) -> Self {
        self.with("deploy".to_owned(), handler)
    }

    /// Names the function that runs the plugin's checks; `request.name` says which.
    #[must_use]
    pub fn validate(self, handler: Handler) -> Self {
        self.with("validate".to_owned(), handler)
    }

    /// Names the function for an event, as `after-deploy`.
    #[must_use]
    pub fn event(self, name: &str, handler: Handler) -> Self {
        self.with(format!("event {name}"), handler)
    }

    /// Names the function that answers a lookup, with [`Response::value`].
    #[must_use]
    pub fn lookup(self, name: &str, handler: Handler) -> Self {
        self.with(format!("lookup {name}"), handler)
    }

    fn with(mut self, subject: String, handler: Handler) -> Self {
        self.all.insert(subject, handler);
        self
    }

    /// Returns the answer to a request.
    ///
    /// # Errors
    /// What the function says.
    pub fn answer(&self, request: &Request) -> Result {
        match self.all.get(&request.subject()) {
            Some(handler) => handler(request),
            None => Ok(Response::new()),
        }
    }

    /// Reads a request, answers it, and returns what `main` returns.
    #[must_use]
    pub fn main(self) -> ExitCode {
        let about_itself = env::var_os("KAWS_COMMAND").is_some_and(|command| command == "INFO")
            || env::args_os().nth(1).is_some_and(|argument| argument == "metadata");
        if !about_itself && stdin().is_terminal() {
            let _ = writeln!(stderr(), "{HINT}");
            return ExitCode::FAILURE;
        }
        match caught(|| if about_itself { manifest() } else { self.said() }) {
            Ok(said) if stdout().write_all(&said).is_ok() => ExitCode::SUCCESS,
            Ok(_) => ExitCode::FAILURE,
            Err(failure) => {
                // Where something else was printed before it, kaws has only the log.
                log("error", failure["msg"].as_str().unwrap_or_default());
                let _ = writeln!(stdout(), "{failure}");
                ExitCode::FAILURE
            }
        }
    }

    fn said(&self) -> Result<Vec<u8>> {
        let mut document = Vec::new();
        stdin().read_to_end(&mut document)?;
        let response = self.answer(&Request::read(&document)?)?;
        let answer = format!("{}\n", response.document()?).into_bytes();
        // In Rust nobody can keep a dependency from printing: so standard output is anybody's, and the file that kaws
        // names is the answer's.
        let Some(file) = env::var_os("KAWS_RESULT") else { return Ok(answer) };
        fs::write(file, answer)?;
        Ok(Vec::new())
    }
}

/// Returns the `plugin.yaml` that lies beside the program: kaws starts it in its folder.
fn manifest() -> Result<Vec<u8>> {
    Ok(fs::read("plugin.yaml")?)
}

fn failure(error: &(dyn Error + 'static)) -> Value {
    let causes = std::iter::successors(error.source(), |&error| error.source());
    let causes: Vec<String> = causes.map(ToString::to_string).collect();
    let mut failure = json!({"code": "error", "msg": error.to_string()});
    if !causes.is_empty() {
        failure["details"] = causes.join(": ").into();
    }
    failure
}

/// Returns what `say` says, or the error document: of an error, or of a panic and its place.
fn caught(say: impl FnOnce() -> Result<Vec<u8>>) -> std::result::Result<Vec<u8>, Value> {
    let place = Arc::new(Mutex::new(String::new()));
    let before = panic::take_hook();
    let seen = Arc::clone(&place);
    panic::set_hook(Box::new(move |panicked| {
        if let Some(location) = panicked.location() {
            *seen.lock().unwrap_or_else(PoisonError::into_inner) = format!("at {location}");
        }
        before(panicked);
    }));
    match panic::catch_unwind(AssertUnwindSafe(say)) {
        Ok(said) => said.map_err(|error| failure(&*error)),
        Err(payload) => {
            let text = payload.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
            let place = place.lock().unwrap_or_else(PoisonError::into_inner);
            Err(json!({"code": "panic", "msg": text.unwrap_or("it panicked"), "details": *place}))
        }
    }
}
