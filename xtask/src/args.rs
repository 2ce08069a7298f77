//! The command line, without a parser's weight: xtask is built before anything else.

use anyhow::{Context, Result, bail};

/// The arguments not taken yet.
pub struct Args(Vec<String>);

impl Args {
    /// The arguments of this program.
    pub fn from_env() -> Args {
        Args(std::env::args().skip(1).collect())
    }

    /// Takes the next argument if it is this word.
    pub fn word(&mut self, word: &str) -> bool {
        let is = self.0.first().is_some_and(|first| first == word);
        if is {
            self.0.remove(0);
        }
        is
    }

    /// Takes the next argument, whatever it is.
    pub fn next(&mut self) -> Option<String> {
        (!self.0.is_empty()).then(|| self.0.remove(0))
    }

    /// Takes a flag wherever it stands.
    pub fn flag(&mut self, name: &str) -> bool {
        let before = self.0.len();
        self.0.retain(|arg| arg != name);
        self.0.len() != before
    }

    /// Takes `--name value` or `--name=value` wherever it stands.
    pub fn value(&mut self, name: &str) -> Result<Option<String>> {
        let Some(at) = self.0.iter().position(|arg| {
            arg.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
        }) else {
            return Ok(None);
        };
        let arg = self.0.remove(at);
        if let Some((_, value)) = arg.split_once('=') {
            return Ok(Some(value.to_string()));
        }
        if at == self.0.len() {
            bail!("{name} needs a value");
        }
        Ok(Some(self.0.remove(at)))
    }

    /// Takes a number given as `--name N`, where `_` may group digits.
    pub fn number(&mut self, name: &str, default: u64) -> Result<u64> {
        match self.value(name)? {
            Some(text) => text.replace('_', "").parse().with_context(|| format!("{name} {text}")),
            None => Ok(default),
        }
    }

    /// Takes all that stands behind `--`.
    pub fn after_dashes(&mut self) -> Vec<String> {
        let at = self.0.iter().position(|arg| arg == "--");
        at.map_or_else(Vec::new, |at| self.0.split_off(at).split_off(1))
    }

    /// Refuses what nobody took.
    pub fn finish(&mut self) -> Result<()> {
        match self.0.first() {
            Some(arg) => bail!("unknown argument \"{arg}\"; see `cargo xtask help`"),
            None => Ok(()),
        }
    }
}
