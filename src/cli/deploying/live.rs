//! What is shown while a deployment goes on: a tree that changes where there is a terminal, a line a
//! change where there is none, a JSON object a line for programs.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use serde_json::json;

use crate::cli::Output;
use crate::cli::report::say;
use crate::deploy::{Progress, StepState, Watcher};

/// The width everything fits.
const WIDTH: usize = 80;

/// Returns the seconds since 1970.
#[expect(clippy::disallowed_methods, reason = "the command line knows the time")]
pub(in crate::cli) fn clock() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |d| d.as_secs())
}

/// Returns the time as text, in UTC.
#[expect(clippy::disallowed_methods, reason = "the command line knows the time")]
pub(in crate::cli) fn stamp() -> String {
    humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string()
}

/// Returns the time to the nanosecond: no two runs on one machine begin at the same.
#[expect(clippy::disallowed_methods, reason = "the command line knows the time")]
pub(super) fn nanoseconds() -> u128 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |d| d.as_nanos())
}

#[expect(clippy::disallowed_methods, reason = "how long something takes is for people")]
fn instant() -> Instant {
    Instant::now()
}

/// Shows how far things are.
pub(in crate::cli) struct Live {
    form: Form,
    start: Instant,
    steps: Mutex<BTreeMap<String, Shown>>,
    stop: Arc<AtomicBool>,
    listens: AtomicBool,
    asks: AtomicBool,
}

enum Form {
    Tree(MultiProgress),
    Lines,
    Json,
}

struct Shown {
    begun: Option<Instant>,
    bar: Option<ProgressBar>,
    /// How many resources are done, and the one that is under way.
    done: usize,
}

impl Live {
    /// Returns what suits the output.
    pub(in crate::cli) fn new(output: Output) -> Arc<Self> {
        let form = match output {
            Output::Json => Form::Json,
            Output::Text if std::io::stdout().is_terminal() => {
                Form::Tree(MultiProgress::with_draw_target(ProgressDrawTarget::stdout()))
            }
            Output::Text => Form::Lines,
        };
        Arc::new(Self {
            form,
            start: instant(),
            steps: Mutex::default(),
            stop: Arc::new(AtomicBool::new(false)),
            listens: AtomicBool::new(false),
            asks: AtomicBool::new(false),
        })
    }

    /// Listens for Ctrl-C: the first lets what is under way finish, the second ends at once.
    pub(in crate::cli) fn listen(self: &Arc<Self>) {
        if self.listens.swap(true, Ordering::Relaxed) {
            return;
        }
        let live = Arc::clone(self);
        tokio::spawn(async move {
            if tokio::signal::ctrl_c().await.is_err() {
                return;
            }
            // Nothing is under way while a question stands there.
            if live.asks.load(Ordering::Relaxed) {
                std::process::exit(130);
            }
            live.stop.store(true, Ordering::Relaxed);
            live.note("Stopping: what is under way finishes. Ctrl-C again ends at once.");
            if tokio::signal::ctrl_c().await.is_ok() {
                std::process::exit(130);
            }
        });
    }

    /// Asks something; whoever is asked can leave with Ctrl-C.
    pub(in crate::cli) fn asking<T>(&self, ask: impl FnOnce() -> T) -> T {
        self.asks.store(true, Ordering::Relaxed);
        let answer = ask();
        self.asks.store(false, Ordering::Relaxed);
        answer
    }

    /// Returns how long it has taken so far.
    pub(in crate::cli) fn elapsed(&self) -> String {
        spent(self.start.elapsed())
    }

    /// Leaves what was shown, and prints below it from now on.
    pub(in crate::cli) fn finish(&self) {
        let mut steps = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
        for bar in std::mem::take(&mut *steps).into_values().filter_map(|shown| shown.bar) {
            bar.abandon();
        }
        // The last line of the tree has no end yet.
        if matches!(self.form, Form::Tree(_)) {
            say("");
        }
    }

    fn note(&self, text: &str) {
        match &self.form {
            Form::Tree(tree) => {
                let _ = tree.println(text);
            }
            Form::Lines => say(&format!("{} {text}", time())),
            Form::Json => say(&json!({"time": stamp(), "note": text}).to_string()),
        }
    }

    fn tree(&self, tree: &MultiProgress, progress: &Progress) {
        let mut steps = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
        match progress {
            Progress::Step { step, state, note } => {
                let shown = steps.entry(step.clone()).or_insert_with(|| Shown {
                    begun: None,
                    bar: Some(tree.add(ProgressBar::new_spinner().with_style(still()))),
                    done: 0,
                });
                let Some(bar) = &shown.bar else { return };
                if *state == StepState::Running {
                    shown.begun = Some(instant());
                    bar.set_style(ticking());
                    bar.set_prefix(format!("● {:15}", short(step)));
                    bar.reset_elapsed();
                    bar.enable_steady_tick(TICK);
                    bar.set_message("");
                    return;
                }
                let took = shown.begun.map(|b| spent(b.elapsed())).unwrap_or_default();
                bar.set_style(still());
                bar.set_message(line(step, state, note, &took));
                bar.tick();
                if !matches!(state, StepState::Waiting(_)) {
                    bar.abandon();
                }
            }
            Progress::Detail { step, subject, status, .. } => {
                let Some(shown) = steps.get_mut(step) else { return };
                if status.ends_with("_COMPLETE") {
                    shown.done += 1;
                }
                if let Some(bar) = &shown.bar {
                    bar.set_message(format!("{} done, {subject} {}", shown.done, words(status)));
                }
            }
        }
    }

    fn lines(&self, progress: &Progress) {
        match progress {
            Progress::Step { state: StepState::Waiting(_), .. } => {}
            Progress::Step { step, state: StepState::Running, .. } => {
                self.begin(step);
                say(&format!("{} ● {}", time(), short(step)));
            }
            Progress::Step { step, state, note } => {
                let took = self.took(step);
                let time = time();
                let room = WIDTH - time.len() - 1;
                say(&format!("{time} {}", line_of(room, step, state, note, &took)));
            }
            // What begins is told when it ends: half the lines, and nothing lost.
            Progress::Detail { status, .. }
                if status.ends_with("_IN_PROGRESS")
                    && !status.contains("ROLLBACK")
                    && !status.starts_with("is in ") => {}
            Progress::Detail { step, subject, status, reason } => {
                say(&format!("{}   {}  {subject}  {status}", time(), short(step)));
                for part in reason.iter().filter(|_| status.ends_with("_FAILED")) {
                    say(&format!("{}     {part}", time()));
                }
            }
        }
    }

    fn json(progress: &Progress) {
        let line = match progress {
            Progress::Step { step, state, note } => {
                let (word, waits) = match state {
                    StepState::Waiting(on) => ("waiting", on.clone()),
                    StepState::Running => ("running", Vec::new()),
                    StepState::Done => ("done", Vec::new()),
                    StepState::Failed => ("failed", Vec::new()),
                    StepState::NotRun => ("not-run", Vec::new()),
                };
                json!({"time": stamp(), "step": step, "state": word, "note": note, "waitsFor": waits})
            }
            Progress::Detail { step, subject, status, reason } => {
                json!({"time": stamp(), "step": step, "resource": subject, "status": status, "reason": reason})
            }
        };
        say(&line.to_string());
    }

    fn begin(&self, step: &str) {
        let shown = Shown { begun: Some(instant()), bar: None, done: 0 };
        self.steps.lock().unwrap_or_else(PoisonError::into_inner).insert(step.to_owned(), shown);
    }

    fn took(&self, step: &str) -> String {
        let steps = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
        steps.get(step).and_then(|s| s.begun).map(|b| spent(b.elapsed())).unwrap_or_default()
    }
}

impl Watcher for Live {
    fn on(&self, progress: Progress) {
        match &self.form {
            Form::Tree(tree) => self.tree(tree, &progress),
            Form::Lines => self.lines(&progress),
            Form::Json => Self::json(&progress),
        }
    }

    fn stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// How often the time under way is shown anew.
const TICK: Duration = Duration::from_millis(200);

/// A line that does not change by itself.
fn still() -> ProgressStyle {
    ProgressStyle::with_template("{msg}").expect("it is a template")
}

/// A line whose time runs.
fn ticking() -> ProgressStyle {
    let took = |state: &ProgressState, out: &mut dyn std::fmt::Write| {
        let _ = write!(out, "{:>7}", spent(state.elapsed()));
    };
    ProgressStyle::with_template("{prefix} {msg:54!} {took}")
        .expect("it is a template")
        .with_key("took", took)
}

/// `stack:network` is `network` to people.
fn short(step: &str) -> String {
    match step.split_once(':') {
        Some(("stack", name)) => name.to_owned(),
        Some((word @ ("drop" | "remove" | "roll"), name)) => format!("{word} {name}"),
        _ => step.to_owned(),
    }
}

/// `✔ network         54 resources made                                     3s`
fn line(step: &str, state: &StepState, note: &str, took: &str) -> String {
    line_of(WIDTH, step, state, note, took)
}

fn line_of(width: usize, step: &str, state: &StepState, note: &str, took: &str) -> String {
    let (mark, note) = match state {
        StepState::Waiting(on) => {
            let on: Vec<String> = on.iter().map(|s| short(s)).collect();
            let waits =
                if on.is_empty() { String::new() } else { format!("waits for {}", on.join(", ")) };
            ('○', waits)
        }
        StepState::Running => ('●', note.to_owned()),
        StepState::Done => ('✔', note.to_owned()),
        StepState::Failed => ('✘', note.to_owned()),
        StepState::NotRun => ('○', "not run".to_owned()),
    };
    let head = format!("{mark} {:15} ", short(step));
    let room = width.saturating_sub(head.chars().count() + took.chars().count() + 1);
    let note = if note.chars().count() > room {
        format!("{}…", note.chars().take(room.saturating_sub(1)).collect::<String>())
    } else {
        note
    };
    format!("{head}{note:room$} {took}").trim_end().to_owned()
}

fn words(status: &str) -> String {
    status.to_lowercase().replace('_', " ")
}

/// `3s`, `8m47s`, `1h02m`.
fn spent(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m", seconds / 3_600, seconds / 60 % 60),
    }
}

/// The time of the day, in UTC.
fn time() -> String {
    let stamp = stamp();
    stamp.split('T').nth(1).unwrap_or("").trim_end_matches('Z').to_owned()
}
