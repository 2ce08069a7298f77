//! What a server says to a pipeline: its settings, the account's privileges, its tables, and how flows fit them.
//! Only looks; changes nothing at the server.

use crate::output::{count, printable, some_of};
use crate::surroundings::PipelineFile;
use cdc_core::catalog::Surroundings;
use cdc_core::connector::Upstream;
use cdc_core::diagnostic::{Diagnostic, Severity};
use cdc_core::plan::pattern::TableSet;
use cdc_core::plan::program::{check_flow, multiset_warnings, whole_rows_missing};
use cdc_core::plan::view::bind::{Graph, bind};
use cdc_core::plan::{OptionValue, Plan, SourcePlan};
use cdc_core::schema::{TableId, TableSchema, same_name};
use cdc_core::zero_dates::ZeroDates;
use cdc_core::{Error, Result, codes};
use cdc_mysql::binlog::files;
use cdc_mysql::capture::discover;
use cdc_mysql::config::Config;
use cdc_mysql::conn::connect;
use cdc_mysql::narrow::Narrow;
use cdc_mysql::preflight::{self, Check};
use cdc_runtime::schemas;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

/// What was seen at one source.
pub struct Live {
    pub(super) source: String,
    address: String,
    version: Option<String>,
    /// What of a table the server logs.
    narrow: Option<Narrow>,
    checks: Vec<Check>,
    pub(super) tables: Option<Vec<Arc<TableSchema>>>,
    /// Whose changes are read, for targets.
    pub(super) upstream: Option<Upstream>,
    /// Tables that no flow takes.
    idle: Vec<String>,
    /// Where the schema file is not what the server has.
    drift: Vec<String>,
    /// What keeps the pipeline from running.
    pub errors: Vec<Error>,
    /// What is worth knowing.
    pub warnings: Vec<Diagnostic>,
}

/// Looks at the server of a source. `state`: the state folder.
pub fn look(source: &SourcePlan, plan: &Plan, file: &PipelineFile, state: &Path) -> Live {
    let mut live = Live {
        source: source.name.clone(),
        address: String::new(),
        version: None,
        narrow: None,
        checks: Vec::new(),
        tables: None,
        upstream: None,
        idle: Vec::new(),
        drift: Vec::new(),
        errors: Vec::new(),
        warnings: Vec::new(),
    };
    if let Err(error) = ask(&mut live, source, file) {
        match without_tables(&error, source, plan, state) {
            Some(warning) => {
                live.tables = Some(Vec::new());
                live.warnings.push(warning);
            }
            None => live.errors.push(error),
        }
    }
    live.fit(source, plan);
    live.compare_schema(source, file);
    live
}

fn ask(live: &mut Live, source: &SourcePlan, file: &PipelineFile) -> Result<()> {
    let config = Config::from_options(&source.options)?.relative_to(&file.base);
    if let Some(named) = &config.files {
        // what tables they hold, the log tells when it is read
        live.address = config.place();
        let found = files::find(named)?;
        live.version = Some(files::server_of(&found)?.to_string());
        return Ok(());
    }
    live.address = match source.options.0.get("url") {
        // from the environment, so never shown
        Some(OptionValue::Secret(_)) => "***".to_owned(),
        _ => format!("{}:{}", config.host, config.port),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Error::definite(codes::INTERNAL, format!("no runtime for input and output: {e}")))?;
    runtime.block_on(async {
        let mut conn = connect(&config).await?;
        let (server, checks) = preflight::check(&mut conn, &config).await?;
        live.version = Some(server.to_string());
        live.narrow = Some(Narrow::new(&server));
        live.upstream =
            Some(Upstream { servers: server.upstream(&mut conn).await?, tables: config.tables.clone() });
        live.errors.extend(preflight::failures(&checks).into_iter().map(Error::from));
        live.checks = checks;
        let (_, discovery) = discover(&mut conn, &config).await?;
        live.tables = Some(discovery.tables);
        live.warnings.extend(discovery.notices);
        // the answers are there; whether the server hears the goodbye does not matter
        let _ = conn.disconnect().await;
        Ok(())
    })
}

/// That no table is left is no error where a run has been: the next one goes on from its state, and reads of the tables' end in the log.
fn without_tables(error: &Error, source: &SourcePlan, plan: &Plan, state: &Path) -> Option<Diagnostic> {
    if error.code() != codes::NO_TABLES {
        return None;
    }
    // a folder that cannot be read, or that is another pipeline's, is told with what is written
    let (tick, tables) = schemas::goes_on(plan, &source.name, state).ok()??;
    let mut warning = Diagnostic { severity: Severity::Warning, ..error.diagnostic().clone() };
    let names: Vec<String> = tables.iter().map(ToString::to_string).collect();
    warning = warning.note(match names.len() as u64 {
        0 => format!("a run goes on from tick {tick} of the state folder, and takes tables in as they are made"),
        n => format!(
            "a run goes on from tick {tick} of the state folder, which follows {}: {}; what became of them it reads in the log",
            count(n, "table"),
            some_of(&names, 50)
        ),
    });
    Some(warning)
}

impl Live {
    /// Do the flows fit the tables that are there?
    fn fit(&mut self, source: &SourcePlan, plan: &Plan) {
        let Some(tables) = &self.tables else { return };
        let flows: Vec<_> = plan.flows.iter().filter(|f| f.source == source.name).collect();
        let wanted: BTreeSet<String> = flows.iter().filter_map(|f| f.view.clone()).collect();
        let views = match bind(&plan.views, &wanted, tables) {
            Ok(graph) => graph,
            Err(diagnostics) => {
                self.errors.extend(diagnostics.into_iter().map(Error::from));
                Graph::default()
            }
        };
        let read: BTreeSet<&TableId> = views.tables().map(|input| &input.table).collect();
        // a view is a table to the flows behind it
        let tables: &Vec<Arc<TableSchema>> =
            &tables.iter().cloned().chain(views.views.iter().map(|view| view.schema.clone())).collect();
        for diagnostic in flows.iter().flat_map(|flow| check_flow(flow, tables)) {
            match diagnostic.severity {
                Severity::Error => self.errors.push(Error::from(diagnostic)),
                Severity::Warning => self.warnings.push(diagnostic),
            }
        }
        self.warnings.extend(multiset_warnings(flows.iter().copied(), tables));
        if let Some(setting) = preflight::partial_images(&self.checks) {
            let missing = whole_rows_missing(flows.iter().copied(), tables, &setting);
            self.errors.extend(missing.into_iter().map(Error::from));
        }
        for flow in &flows {
            if flow.view.is_none() && !tables.iter().any(|t| flow.takes(&t.id)) {
                let headline = format!("flow \"{}\" takes no table of the server", flow.name);
                self.warnings.push(
                    Diagnostic::warning(codes::PATTERN_MATCHES_NOTHING, headline).at(flow.span.clone(), ""),
                );
            }
        }
        self.idle = tables
            .iter()
            .filter(|t| !t.id.database.is_empty() && !read.contains(&t.id))
            .filter(|t| !flows.iter().any(|f| f.takes(&t.id)))
            .map(|t| t.id.to_string())
            .collect();
    }

    /// Does the schema file say what the server says?
    fn compare_schema(&mut self, source: &SourcePlan, file: &PipelineFile) {
        let (Some(tables), Some(path)) = (&self.tables, source.options.text("schema")) else { return };
        // what is wrong with the file itself has been told with the pipeline's mistakes
        let database = source.options.list("tables").and_then(|t| TableSet::parse(t).ok());
        let database = database.as_ref().and_then(TableSet::only_database);
        let Ok(written) = file.schema_file(path, database) else { return };
        // as flows see it, which is how the server's tables come
        let dates = source.options.text("zero_dates").and_then(ZeroDates::parse).unwrap_or_default();
        let shown = |table: TableSchema| {
            let table = Arc::new(table);
            let logged = self.narrow.as_ref().map_or(table.clone(), |narrow| narrow.schema(&table));
            TableSchema::clone(&dates.schema(&logged))
        };
        let written: Vec<TableSchema> = written.into_iter().map(shown).collect();
        for table in tables {
            match written.iter().find(|w| w.id == table.id) {
                None => self.drift.push(format!("table {} is not in \"{path}\"", table.id)),
                Some(written) => drift(written, table, path, &mut self.drift),
            }
        }
    }

    /// The report for people.
    pub fn to_text(&self) -> String {
        let mut out = format!("source {}", self.source);
        if !self.address.is_empty() {
            _ = write!(out, " at {}", printable(&self.address));
        }
        if let Some(version) = &self.version {
            _ = write!(out, ", {}", printable(version));
        }
        out.push('\n');
        out.push_str(&lines(&self.checks));
        if let Some(tables) = &self.tables {
            let names: Vec<String> =
                tables.iter().map(|t| printable(&t.id.to_string()).into_owned()).collect();
            _ = writeln!(out, "  {}: {}", count(names.len() as u64, "table"), some_of(&names, 50));
        }
        if !self.idle.is_empty() {
            _ = writeln!(out, "  taken by no flow: {}", some_of(&self.idle, 50));
        }
        for line in &self.drift {
            _ = writeln!(out, "  drift: {}", printable(line));
        }
        out
    }

    /// The same for programs.
    pub fn to_json(&self) -> Value {
        json!({
            "source": self.source,
            "address": self.address,
            "version": self.version,
            "checks": self.checks.iter().map(to_json).collect::<Vec<_>>(),
            "tables": self.tables.as_ref().map(|t| t.iter().map(|t| t.id.to_string()).collect::<Vec<_>>()),
            "taken_by_no_flow": self.idle,
            "drift": self.drift,
        })
    }
}

/// A line for each check, and what mends those that do not do.
pub(super) fn lines(checks: &[Check]) -> String {
    let mut out = String::new();
    let width = |of: fn(&Check) -> &str| checks.iter().map(|c| of(c).chars().count()).max().unwrap_or(0);
    let (setting, expected) = (width(|c| &c.setting), width(|c| &c.expected));
    for check in checks {
        let word = match (check.ok, check.advised) {
            (true, _) => "ok   ",
            (false, true) => "weak ",
            (false, false) => "wrong",
        };
        _ = writeln!(
            out,
            "  {word}  {:setting$}  expected {:expected$}  actual {}",
            printable(&check.setting),
            check.expected,
            printable(&check.actual)
        );
        if !check.ok {
            _ = writeln!(out, "         mend it: {}", printable(&check.mend));
        }
    }
    out
}

/// A check for programs.
pub(super) fn to_json(c: &Check) -> Value {
    json!({
        "setting": c.setting, "expected": c.expected, "actual": c.actual, "ok": c.ok,
        "advised": c.advised,
        "mend": if c.ok { Value::Null } else { json!(c.mend) },
    })
}

/// Names, types, NULL and key of the columns of one table.
fn drift(written: &TableSchema, table: &TableSchema, path: &str, out: &mut Vec<String>) {
    let id = &table.id;
    for column in &table.columns {
        match written.columns.iter().find(|w| same_name(&w.name, &column.name)) {
            None => out.push(format!("column {id}.{} is not in \"{path}\"", column.name)),
            Some(w) if w.ty != column.ty => {
                out.push(format!(
                    "column {id}.{} is {}, in \"{path}\" it is {}",
                    column.name, column.ty, w.ty
                ));
            }
            Some(w) if w.nullable != column.nullable => {
                let word = |nullable| if nullable { "NULL" } else { "NOT NULL" };
                let (is, says) = (word(column.nullable), word(w.nullable));
                out.push(format!("column {id}.{} is {is}, in \"{path}\" it is {says}", column.name));
            }
            Some(_) => {}
        }
    }
    for column in &written.columns {
        if table.column_index(&column.name).is_none() {
            out.push(format!("column {id}.{} of \"{path}\" is not at the server", column.name));
        }
    }
    let key = |t: &TableSchema| {
        let names = t.key().unwrap_or_default().iter().map(|i| t.columns[*i].name.to_lowercase());
        names.collect::<Vec<_>>()
    };
    if key(written) != key(table) {
        out.push(format!(
            "the key of table {id} is ({}), in \"{path}\" it is ({})",
            key(table).join(", "),
            key(written).join(", ")
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cdc_mysql::ddl::{Context, parse_schema_text};

    fn tables(text: &str) -> Vec<TableSchema> {
        parse_schema_text(text, Some("shop"), &Context::mysql(90_700)).expect("DDL")
    }

    #[test]
    fn drift_is_told_by_column() {
        let file = tables("CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, gone INT)");
        let server =
            tables("CREATE TABLE t (id INT, a BIGINT, b INT NOT NULL, fresh INT, PRIMARY KEY (id, b))");
        let mut lines = Vec::new();
        drift(&file[0], &server[0], "shop.sql", &mut lines);
        assert_eq!(lines.len(), 5, "{lines:?}");
        assert!(lines[0].contains("column shop.t.a is bigint"), "{lines:?}");
        assert!(lines[4].contains("the key of table shop.t is (id, b)"), "{lines:?}");
        lines.clear();
        drift(&file[0], &file[0], "shop.sql", &mut lines);
        assert!(lines.is_empty());
    }

    #[test]
    fn what_is_wrong_is_shown_with_what_mends_it() {
        let check = |setting: &str, actual: &str, ok| Check {
            setting: setting.into(),
            expected: "ON".into(),
            actual: actual.into(),
            mend: format!("SET PERSIST {setting} = ON"),
            ok,
            advised: setting == "weak_setting",
            code: codes::SETTING_WRONG,
        };
        let live = Live {
            source: "src".into(),
            address: "db:3306".into(),
            version: Some("MySQL 9.7.0".into()),
            narrow: None,
            checks: vec![
                check("log_bin", "ON", true),
                check("gtid_mode", "OFF", false),
                check("weak_setting", "OFF", false),
            ],
            tables: Some(tables("CREATE TABLE t (id INT PRIMARY KEY)").into_iter().map(Arc::new).collect()),
            upstream: None,
            idle: vec!["shop.t".into()],
            drift: Vec::new(),
            errors: Vec::new(),
            warnings: Vec::new(),
        };
        assert_eq!(
            live.to_text(),
            "source src at db:3306, MySQL 9.7.0\n\
             \x20 ok     log_bin       expected ON  actual ON\n\
             \x20 wrong  gtid_mode     expected ON  actual OFF\n\
             \x20        mend it: SET PERSIST gtid_mode = ON\n\
             \x20 weak   weak_setting  expected ON  actual OFF\n\
             \x20        mend it: SET PERSIST weak_setting = ON\n\
             \x20 1 table: shop.t\n\
             \x20 taken by no flow: shop.t\n"
        );
    }
}
