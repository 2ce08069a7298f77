//! Where a command's words go: lines on standard error, JSON objects there, or a document on standard output.

use crate::exit::Exit;
use crate::output;
use crate::screen::Screen;
use crate::surroundings::PipelineFile;
use cdc_core::Error;
use cdc_core::diagnostic::{Code, Diagnostic, Severity};
use serde_json::{Map, Value, json};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// What is written how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Lines for people, on standard error.
    Lines,
    /// A JSON object per line, on standard error.
    JsonLines,
    /// One JSON document on standard output; warnings, which do not keep it from being written, as lines on
    /// standard error.
    Document,
}

/// The codes of the errors that people were told, each once.
#[derive(Debug, Clone, Default)]
pub struct Told(Arc<Mutex<Vec<Code>>>);

impl Told {
    fn add(&self, code: Code) {
        let mut codes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !codes.contains(&code) {
            codes.push(code);
        }
    }

    /// Says where the errors are explained: the last line of a command that failed.
    pub fn hint(&self) {
        let codes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(hint) = hint(&codes) {
            output::eprint(&format!("{} {hint}\n", output::stderr_style().bold("help:")));
        }
    }
}

fn hint(codes: &[Code]) -> Option<String> {
    match codes {
        [] => None,
        [one] => Some(format!("cdc error {one} explains it")),
        [first, ..] => Some(format!("cdc error CODE explains each of them, such as cdc error {first}")),
    }
}

/// Takes what is to be told.
#[derive(Debug, Clone)]
pub struct Log {
    form: Form,
    told: Told,
    /// What is on the screen and has to make room for a line.
    live: Option<Screen>,
}

impl Log {
    /// A log of this form.
    pub fn new(form: Form, told: &Told) -> Log {
        Log { form, told: told.clone(), live: None }
    }

    /// The same, above a live view.
    pub fn above(&self, live: Screen) -> Log {
        Log { live: Some(live), ..self.clone() }
    }

    /// Is it for programs?
    pub fn is_json(&self) -> bool {
        self.form == Form::JsonLines
    }

    /// Something that happened: `text` for people, `event` and `fields` for programs.
    pub fn event(&self, event: &str, text: &str, fields: Value) {
        match self.form {
            Form::JsonLines => self.object("info", event, text, fields),
            Form::Lines | Form::Document => self.write(&format!("{}\n", output::printable(text))),
        }
    }

    /// Warnings and errors, each with its place. Those of the engine have mostly none: `file` is `None` then.
    pub fn diagnostics(&self, diagnostics: &[Diagnostic], file: Option<&PipelineFile>) {
        if diagnostics.is_empty() {
            return;
        }
        match self.form {
            Form::Lines | Form::Document => {
                let errors = diagnostics.iter().filter(|d| d.severity == Severity::Error);
                errors.for_each(|error| self.told.add(error.code));
                self.write(&output::render(diagnostics, file, output::stderr_style().report()))
            }
            Form::JsonLines => {
                for (diagnostic, fields) in diagnostics.iter().zip(output::to_json(diagnostics, file)) {
                    let level = if diagnostic.severity == Severity::Error { "error" } else { "warning" };
                    self.object(level, "diagnostic", &diagnostic.headline, fields);
                }
            }
        }
    }

    /// An empty line, for people.
    pub fn gap(&self) {
        if self.form == Form::Lines {
            self.write("\n");
        }
    }

    /// Why there is nothing else to be told.
    pub fn refused(&self, diagnostics: &[Diagnostic], file: Option<&PipelineFile>) {
        match self.form {
            Form::Document => {
                if let Err(error) = output::print_json(&output::refusal(diagnostics, file)) {
                    self.write(&format!("{error}\n"));
                }
            }
            Form::Lines | Form::JsonLines => self.diagnostics(diagnostics, file),
        }
    }

    /// An error that ends the command, and what follows from it.
    pub fn failed(&self, error: &Error, file: Option<&PipelineFile>) -> Exit {
        let diagnostic = error.diagnostic();
        let file = file.filter(|_| !diagnostic.labels.is_empty());
        self.refused(std::slice::from_ref(diagnostic), file);
        Exit::of(error)
    }

    fn object(&self, level: &str, event: &str, message: &str, fields: Value) {
        let mut object = Map::new();
        object.insert("time".to_owned(), json!(timestamp(SystemTime::now())));
        object.insert("level".to_owned(), json!(level));
        object.insert("event".to_owned(), json!(event));
        object.insert("message".to_owned(), json!(message));
        if let Value::Object(fields) = fields {
            object.extend(fields);
        }
        self.write(&format!("{}\n", Value::Object(object)));
    }

    fn write(&self, text: &str) {
        match &self.live {
            Some(live) => live.above(|| output::eprint(text)),
            None => output::eprint(text),
        }
    }
}

/// RFC 3339, in UTC, with milliseconds.
fn timestamp(now: SystemTime) -> String {
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    let (year, month, day) = civil(days);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{:03}Z",
        second / 3600,
        second / 60 % 60,
        second % 60,
        since.subsec_millis()
    )
}

/// The date of a day since 1970. Years are counted from March, so that the day that comes and goes is their last
/// (Howard Hinnant, "chrono-compatible low-level date algorithms", `civil_from_days`).
fn civil(days: u64) -> (u64, u64, u64) {
    let from_march_0 = days + 719_468;
    let (era, day_of_era) = (from_march_0 / 146_097, from_march_0 % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_hint_names_one_code() {
        use cdc_core::codes;
        assert_eq!(hint(&[]), None);
        assert_eq!(hint(&[codes::GRANT_MISSING]).as_deref(), Some("cdc error E1004 explains it"));
        let two = hint(&[codes::UNKNOWN_COLUMN, codes::NO_KEY]);
        assert_eq!(two.as_deref(), Some("cdc error CODE explains each of them, such as cdc error E0301"));
        let told = Told::default();
        [codes::NO_KEY; 2].iter().for_each(|code| told.add(*code));
        assert_eq!(*told.0.lock().expect("nobody failed"), [codes::NO_KEY]);
    }

    #[test]
    fn times() {
        let at = |s, ms| timestamp(UNIX_EPOCH + Duration::from_secs(s) + Duration::from_millis(ms));
        assert_eq!(at(0, 0), "1970-01-01T00:00:00.000Z");
        assert_eq!(at(951_782_400, 7), "2000-02-29T00:00:00.007Z");
        assert_eq!(at(1_709_251_199, 999), "2024-02-29T23:59:59.999Z");
        assert_eq!(at(4_102_444_800, 0), "2100-01-01T00:00:00.000Z");
    }
}
