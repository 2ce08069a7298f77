//! One execution: the server's steps, the log reader, the chunk readers, the sink, checkpoints and crashes,
//! around the [`Reconciler`], which makes the decisions.

use super::server::{Event, History, KEYS, Kind, Table, columns_of, full_row, key_of, key_row, partial_row};
use cdc_core::Row;
use cdc_mysql::snapshot::reconcile::{ChunkNumber, Mended, NotYet, Reconciler, RowEvent, TransactionSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;

/// Transactions are numbered as the log has them; a set of them is a mask.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Debug)]
pub struct Mask(pub u16);

impl TransactionSet<u8> for Mask {
    fn holds(&self, transaction: &u8) -> bool {
        has(self.0, *transaction)
    }
    fn holds_all(&self, other: &Mask) -> bool {
        other.0 & !self.0 == 0
    }
    fn add(&mut self, transaction: &u8) {
        self.0 |= 1 << transaction;
    }
    fn add_all(&mut self, other: &Mask) {
        self.0 |= other.0;
    }
}

fn has(mask: u16, transaction: u8) -> bool {
    mask >> transaction & 1 == 1
}

/// The first `n` transactions.
fn first(n: u8) -> u16 {
    ((1u32 << n) - 1) as u16
}

/// A rule that is taken out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// LW is the written end of the log.
    LowIsWrittenEnd,
    /// LW is read after the SELECT.
    LowAfterSelect,
    /// HW is `gtid_executed`.
    HighIsExecuted,
    /// The log reader is not waited for.
    HighNotAwaited,
    /// Reached means to be behind HW: on a quiet server nothing comes after.
    ReachedIsAfter,
    /// Transactions that the server skips do not count as reached.
    SkippedNotReached,
    /// Chunks that wait for HW stop the log reader.
    OneBudget,
    /// `executed` is told the written end of the log: things are forgotten that a later LW need not hold.
    ExecutedIsWrittenEnd,
    /// The chunk is announced when its SELECT is done.
    AnnouncedAfterSelect,
    /// After a restart LW need not hold what was given out before.
    RestartForgets,
    /// After a restart the events that the sink has already are not noted.
    ReplayNotNoted,
    /// Rows touched in some columns are dropped.
    PartlyDropped,
    /// An entry keeps the first transaction.
    FirstTransactionKept,
    /// DDL is not noted.
    DdlNotNoted,
    /// DDL is not noted while no chunk is in flight.
    DdlOnlyInFlight,
    /// DDL is not noted once HW is taken.
    DdlOnlyToHigh,
    /// XA rows are noted at the position of XA PREPARE.
    XaNotedAtPrepare,
    /// XA rows held are lost by a restart.
    XaLostByRestart,
    /// `XA RECOVER` is not asked at the start.
    XaRecoverNotAsked,
    /// The server counts an XA COMMIT before it is visible.
    XaCountedEarly,
    /// P0 is `gtid_executed` alone.
    StartAtExecutedOnly,
    /// P0 is the written end alone.
    StartAtWrittenOnly,
    /// The key that a row was moved to by a partial image is not queued.
    MoveNotQueued,
    /// It is queued, but not unknown meanwhile.
    MoveTakenAsKnown,
    /// Its small chunk is announced as any other: it does not wait for the move, and is not read again.
    SmallChunkAsAnyOther,
    /// Keys that are to be read again are not.
    AgainIgnored,
    /// A diff is taken as an update of no columns.
    DiffTakenAsKnown,
    /// A chunk counts as finished before the sink has committed its rows.
    FinishedBeforeCommit,
    /// Rows enter a tick that the sink has committed.
    RowsInCommittedTick,
    /// Rows enter a tick that is replayed after a restart.
    RowsInReplayedTick,
    /// The sink commits before the first checkpoint.
    CommitBeforeCheckpoint,
    /// Rows arrive behind later events of the log, with no order between them.
    RowsLate,
    /// The answer to a dropped chunk's SELECT is taken for that of the next.
    LateAnswerTaken,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Forget {
    /// After every step, with the newest `gtid_executed`.
    Eagerly,
    /// At any time, with a `gtid_executed` of any age.
    AnyTime,
    Never,
}

#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Transactions become visible and are counted in any order (`binlog_order_commits=OFF`).
    pub order_off: bool,
    /// LW is the exact position of a consistent snapshot, and so is P0.
    pub mariadb: bool,
    /// Keys 0 and 1 in one chunk and key 2 in another, else all in one.
    pub two_chunks: bool,
    pub in_flight: usize,
    pub crashes: u8,
    pub drops: u8,
    /// The start waits for XA branches to end.
    pub xa_wait: bool,
    pub forget: Forget,
    /// Between the server's answer for LW and the decision other things happen.
    pub in_transit: bool,
    /// A key that is queued while its small chunk is in flight leaves that one be, else replaces it.
    pub keep_small: bool,
    /// The target follows neither differences nor moves by partial images while the table is copied: such rows are
    /// read again.
    pub lost: bool,
    pub fault: Option<Fault>,
}

impl Settings {
    pub const BASE: Settings = Settings {
        order_off: false,
        mariadb: false,
        two_chunks: false,
        in_flight: 2,
        crashes: 0,
        drops: 0,
        xa_wait: false,
        forget: Forget::Eagerly,
        in_transit: false,
        keep_small: false,
        lost: false,
        fault: None,
    };
    fn is(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }
    /// The ranges, as sets of chunks.
    fn ranges(&self) -> u8 {
        if self.two_chunks { 0b11 } else { 0b01 }
    }
    fn keys(&self, slot: u8) -> u8 {
        match (slot, self.two_chunks) {
            (0, false) => 0b111,
            (0, true) => 0b011,
            (1, _) => 0b100,
            _ => 1 << (slot - RANGES),
        }
    }
}

const RANGES: u8 = 2;
const SLOTS: u8 = RANGES + KEYS;
const TABLE: u32 = 7;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Status {
    #[default]
    NotWanted,
    Pending,
    Announced,
    /// The server has answered for LW, the decision is to come.
    LowInTransit,
    /// LW is good.
    Ready,
    Selected,
    HighTaken,
    Done,
    // of the faults
    LowUnannounced,
    SelectedUnannounced,
    SelectedWithoutLow,
    RowsUnderWay,
}

impl Status {
    fn in_flight(self) -> bool {
        !matches!(self, Status::NotWanted | Status::Pending | Status::Done | Status::RowsUnderWay)
    }
}

/// A chunk: the first are ranges, then there is a small one per key.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    status: Status,
    number: Option<ChunkNumber>,
    low: u16,
    rows: Table,
    high: u16,
    stale: bool,
}

impl Slot {
    fn of(status: Status) -> Slot {
        Slot { status, ..Slot::default() }
    }
}

/// What the sink has committed, and what the enumerator knew then.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Durable {
    any: bool,
    position: u8,
    target: Table,
    done: u8,
    wanted: u8,
    shown: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Checkpoint {
    any: bool,
    position: u8,
    done: u8,
    wanted: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    Append,
    EngineCommit(u8),
    Count(u8),
    Start,
    /// The log reader gives out one row event.
    ReadRow,
    ReadExecuted,
    Sweep,
    Announce(u8),
    ReadLow(u8),
    JudgeLow(u8),
    Select(u8),
    ReadHigh(u8),
    Mend(u8),
    RowsArrive(u8),
    Drop(u8),
    SinkCommit,
    Checkpoint,
    Crash,
}

impl Action {
    /// Nothing that the algorithm may wait for.
    pub fn is_passive(self) -> bool {
        use Action::{Checkpoint, Crash, Drop, ReadExecuted, SinkCommit, Sweep};
        matches!(self, Crash | SinkCommit | Checkpoint | ReadExecuted | Sweep | Drop(_))
    }
    /// Its kind, for random weights.
    pub fn class(self) -> usize {
        match self {
            Action::Append => 0,
            Action::EngineCommit(_) => 1,
            Action::Count(_) => 2,
            Action::Start => 3,
            Action::ReadRow => 4,
            Action::ReadExecuted => 5,
            Action::Sweep => 6,
            Action::Announce(_) => 7,
            Action::ReadLow(_) => 8,
            Action::JudgeLow(_) => 9,
            Action::Select(_) => 10,
            Action::ReadHigh(_) => 11,
            Action::Mend(_) | Action::RowsArrive(_) => 12,
            Action::SinkCommit => 13,
            Action::Checkpoint => 14,
            Action::Drop(_) => 15,
            Action::Crash => 16,
        }
    }
    pub const CLASSES: usize = 17;
}

type Decisions = Reconciler<u8, Mask>;

#[derive(Clone, Debug)]
pub struct State {
    // the server
    appended: u8,
    committed: u16,
    counted: u16,
    // the log reader
    started: bool,
    skipped: u16,
    unsent: u16,
    pub position: u8,
    /// The next row of the transaction at `position`.
    row: u8,
    // the decisions, copied when written
    decisions: Rc<Decisions>,
    digest: u64,
    changed: bool,
    told: u16,
    /// The table is whole, nothing is noted.
    whole: bool,
    slots: [Slot; SLOTS as usize],
    dropped: Option<ChunkNumber>,
    // the target
    pub target: Table,
    /// It has been declared whole.
    shown: bool,
    sink: Durable,
    checkpoint: Checkpoint,
    crashes: u8,
    drops: u8,
    // of the faults
    unheld: u16,
    replaying: bool,
    firsts: [Option<u8>; KEYS as usize],
}

impl State {
    pub fn new(c: &Settings) -> State {
        let mut state = State {
            appended: 0,
            committed: 0,
            counted: 0,
            started: false,
            skipped: 0,
            unsent: 0,
            position: 0,
            row: 0,
            decisions: Rc::new(Decisions::default()),
            digest: 0,
            changed: false,
            told: 0,
            whole: false,
            slots: [Slot::default(); SLOTS as usize],
            dropped: None,
            target: Table::default(),
            shown: false,
            sink: Durable::default(),
            checkpoint: Checkpoint::default(),
            crashes: c.crashes,
            drops: c.drops,
            unheld: 0,
            replaying: false,
            firsts: [None; KEYS as usize],
        };
        state.set_slots(0, c.ranges());
        state
    }

    fn set_slots(&mut self, done: u8, wanted: u8) {
        for (i, slot) in self.slots.iter_mut().enumerate() {
            *slot = Slot::of(match (done >> i & 1, wanted >> i & 1) {
                (1, _) => Status::Done,
                (_, 1) => Status::Pending,
                _ => Status::NotWanted,
            });
        }
    }
    fn decide(&mut self) -> &mut Decisions {
        self.changed = true;
        Rc::make_mut(&mut self.decisions)
    }
    fn all_done(&self) -> bool {
        self.slots.iter().all(|s| matches!(s.status, Status::NotWanted | Status::Done))
    }
    fn done_and_wanted(&self) -> (u8, u8) {
        self.slots.iter().enumerate().fold((0, 0), |(done, wanted), (i, slot)| {
            let is = |yes: bool| u8::from(yes) << i;
            (done | is(slot.status == Status::Done), wanted | is(slot.status != Status::NotWanted))
        })
    }
    /// What the server answers for LW.
    fn low(&self, c: &Settings) -> u16 {
        if c.is(Fault::LowIsWrittenEnd) { first(self.appended) } else { self.executed(c) }
    }
    fn executed(&self, c: &Settings) -> u16 {
        match c.mariadb {
            _ if c.is(Fault::ExecutedIsWrittenEnd) => first(self.appended),
            true => self.committed,
            false => self.counted,
        }
    }
    fn reached(&self, c: &Settings, slot: &Slot) -> bool {
        match c.fault {
            Some(Fault::HighNotAwaited) => true,
            Some(Fault::HighIsExecuted) => (slot.high & !self.skipped) >> self.position == 0,
            Some(Fault::ReachedIsAfter) => {
                u16::from(self.position) > slot.high || u16::from(self.position) == slot.high && self.row > 0
            }
            Some(Fault::SkippedNotReached) => {
                let mut seen = self.position;
                while seen > 0 && has(self.unsent, seen - 1) {
                    seen -= 1;
                }
                u16::from(seen) >= slot.high
            }
            _ => u16::from(self.position) >= slot.high,
        }
    }
    /// Events go to the target, unless they are replayed and it has them.
    fn emits(&self) -> bool {
        !self.sink.any || self.position >= self.sink.position
    }

    /// All that can happen next.
    pub fn actions(&self, h: &History, c: &Settings, out: &mut Vec<Action>) {
        out.clear();
        self.server_actions(h, c, out);
        if self.started {
            self.reader_actions(c, out);
        } else if !(c.xa_wait && h.open_branch(self.counted).is_some()) {
            out.push(Action::Start);
        }
        if (self.crashes > 0 || c.is(Fault::RowsInCommittedTick))
            && self.started
            && self.row == 0
            && self.position >= self.sink.position
            && self.durable() != self.sink
            && (self.checkpoint.any || c.is(Fault::CommitBeforeCheckpoint))
        {
            out.push(Action::SinkCommit);
        }
        if self.crashes > 0 && self.started {
            if self.next_checkpoint(c) != self.checkpoint {
                out.push(Action::Checkpoint);
            }
            out.push(Action::Crash);
        }
    }

    fn server_actions(&self, h: &History, c: &Settings, out: &mut Vec<Action>) {
        if let Some(next) = h.log.get(usize::from(self.appended)) {
            let locked = |(i, t): (usize, &super::server::Transaction)| {
                t.keys & next.keys != 0 && !has(self.committed, i as u8) && t.kind != Kind::XaPrepare
            };
            let unprepared =
                matches!(next.kind, Kind::XaCommit(p) | Kind::XaRollback(p) if !has(self.counted, p));
            if !unprepared && !h.log[..usize::from(self.appended)].iter().enumerate().any(locked) {
                out.push(Action::Append);
            }
        }
        let next_of = |mask: u16| {
            (0..self.appended).filter(move |i| !has(mask, *i)).take(if c.order_off { usize::MAX } else { 1 })
        };
        out.extend(next_of(self.committed).map(Action::EngineCommit));
        let early =
            |i: u8| c.is(Fault::XaCountedEarly) && matches!(h.log[usize::from(i)].kind, Kind::XaCommit(_));
        let countable = |i: &u8| has(self.committed, *i) || early(*i);
        out.extend(next_of(self.counted).filter(countable).map(Action::Count));
    }

    fn reader_actions(&self, c: &Settings, out: &mut Vec<Action>) {
        let waiting = self.slots.iter().filter(|s| s.status == Status::HighTaken).count();
        if self.position < self.appended && !(c.is(Fault::OneBudget) && waiting >= 2) {
            out.push(Action::ReadRow);
        }
        if c.forget == Forget::AnyTime && !self.whole {
            if self.told != self.executed(c) {
                out.push(Action::ReadExecuted);
            }
            if self.position > 0 || self.row > 0 {
                out.push(Action::Sweep);
            }
        }
        let in_flight = self.slots.iter().filter(|s| s.status.in_flight()).count();
        for (i, slot) in (0..SLOTS).zip(&self.slots) {
            match slot.status {
                Status::Pending if in_flight < c.in_flight => out.push(match c.fault {
                    Some(Fault::AnnouncedAfterSelect) => Action::ReadLow(i),
                    _ => Action::Announce(i),
                }),
                Status::Announced if c.is(Fault::LowAfterSelect) => out.push(Action::Select(i)),
                Status::Announced | Status::SelectedWithoutLow => out.push(Action::ReadLow(i)),
                Status::LowInTransit => out.push(Action::JudgeLow(i)),
                Status::Ready | Status::LowUnannounced => out.push(Action::Select(i)),
                Status::SelectedUnannounced => out.push(Action::Announce(i)),
                Status::Selected => out.push(Action::ReadHigh(i)),
                Status::HighTaken if self.reached(c, slot) => out.push(Action::Mend(i)),
                Status::RowsUnderWay => out.push(Action::RowsArrive(i)),
                _ => {}
            }
            if self.drops > 0 && slot.number.is_some() && slot.status.in_flight() {
                out.push(Action::Drop(i));
            }
        }
    }

    fn durable(&self) -> Durable {
        let (done, wanted) = self.done_and_wanted();
        Durable { any: true, position: self.position, target: self.target, done, wanted, shown: self.shown }
    }
    fn next_checkpoint(&self, c: &Settings) -> Checkpoint {
        let (done, wanted) = self.done_and_wanted();
        if self.position < self.sink.position {
            // a tick that is replayed: the sink has committed it
            if self.row == 0 && self.position > self.checkpoint.position {
                return Checkpoint { any: true, position: self.position, done, wanted };
            }
            return self.checkpoint;
        }
        if !self.sink.any {
            return self.checkpoint;
        }
        let done = if c.is(Fault::FinishedBeforeCommit) { done } else { 0 };
        let Durable { position, done: committed, wanted, .. } = self.sink;
        Checkpoint { any: true, position, done: committed | done, wanted }
    }

    pub fn step(&mut self, h: &History, c: &Settings, action: Action) {
        match action {
            Action::Append => self.appended += 1,
            Action::EngineCommit(i) => self.committed |= 1 << i,
            Action::Count(i) => self.counted |= 1 << i,
            Action::Start => self.start(h, c),
            Action::ReadRow => self.read_row(h, c),
            Action::ReadExecuted => {
                self.told = self.executed(c);
                let executed = Mask(self.told);
                self.decide().executed(&executed);
            }
            Action::Sweep => {
                self.decide().sweep();
            }
            Action::Announce(i) => {
                self.announce(c, i);
                if self.slots[usize::from(i)].status == Status::SelectedUnannounced {
                    self.judge_low(h, c, i);
                } else {
                    self.slots[usize::from(i)].status = Status::Announced;
                }
            }
            Action::ReadLow(i) => {
                let low = self.low(c);
                let slot = &mut self.slots[usize::from(i)];
                slot.low = low;
                match slot.status {
                    Status::Pending => slot.status = Status::LowUnannounced,
                    Status::Announced if c.in_transit => slot.status = Status::LowInTransit,
                    _ => self.judge_low(h, c, i),
                }
                if c.mariadb {
                    // the snapshot is of this moment
                    self.slots[usize::from(i)].rows = h.visible(self.committed).only(c.keys(i));
                    if self.slots[usize::from(i)].status == Status::Announced {
                        self.slots[usize::from(i)].rows = Table::default();
                    }
                }
            }
            Action::JudgeLow(i) => self.judge_low(h, c, i),
            Action::Select(i) => {
                let slot = &mut self.slots[usize::from(i)];
                if !slot.stale {
                    slot.rows = h.visible(self.committed).only(c.keys(i));
                }
                slot.status = match slot.status {
                    Status::Announced => Status::SelectedWithoutLow,
                    Status::LowUnannounced => Status::SelectedUnannounced,
                    _ => Status::Selected,
                };
            }
            Action::ReadHigh(i) => {
                let written = u16::from(self.appended);
                let high = if c.is(Fault::HighIsExecuted) { self.counted } else { written };
                let slot = &mut self.slots[usize::from(i)];
                slot.high = high;
                slot.status = Status::HighTaken;
            }
            Action::Mend(i) => self.mend(c, i),
            Action::RowsArrive(i) => {
                let rows = self.slots[usize::from(i)].rows;
                for key in 0..KEYS {
                    if let row @ Some(_) = rows.get(key) {
                        self.target.set(key, row);
                    }
                }
                self.slots[usize::from(i)] = Slot::of(Status::Done);
            }
            Action::Drop(i) => {
                self.drops -= 1;
                let slot = self.slots[usize::from(i)];
                self.drop_in_flight(i);
                if c.is(Fault::LateAnswerTaken) && matches!(slot.status, Status::Selected | Status::HighTaken)
                {
                    self.slots[usize::from(i)].rows = slot.rows;
                    self.slots[usize::from(i)].stale = true;
                }
            }
            Action::SinkCommit => {
                self.sink = self.durable();
                self.replaying = false;
            }
            Action::Checkpoint => self.checkpoint = self.next_checkpoint(c),
            Action::Crash => self.crash(h, c),
        }
        self.settle(h, c);
    }

    /// What follows every step.
    fn settle(&mut self, h: &History, c: &Settings) {
        if self.started && self.row == 0 && self.all_done() {
            if !self.whole {
                self.whole = true;
                self.decide().forget_table(TABLE);
            }
            self.shown |= self.emits();
        }
        if self.whole {
            // never asked again
            (self.digest, self.changed, self.told) = (0, false, 0);
            self.firsts = [None; KEYS as usize];
        } else {
            if c.forget == Forget::Eagerly && self.started {
                let executed = self.executed(c);
                if self.changed || executed != self.told {
                    self.told = executed;
                    let decisions = self.decide();
                    decisions.executed(&Mask(executed));
                    decisions.sweep();
                }
            }
            if self.changed {
                self.changed = false;
                let mut hasher = DefaultHasher::new();
                self.decisions.hash(&mut hasher);
                self.digest = hasher.finish();
            }
        }
        // what plays no part any more, so that equal states are equal
        if self.crashes == 0 && !c.is(Fault::RowsInCommittedTick) {
            self.checkpoint = Checkpoint::default();
            if self.position > self.sink.position || self.position == self.sink.position && !self.replaying {
                self.sink = Durable::default();
                self.replaying = false;
            }
        }
        if self.started && usize::from(self.position) == h.log.len() && self.all_done() {
            self.skipped = 0;
        }
    }

    fn start(&mut self, h: &History, c: &Settings) {
        self.started = true;
        let executed = if c.mariadb { self.committed } else { self.counted };
        self.skipped = match c.fault {
            Some(Fault::StartAtExecutedOnly) => executed,
            _ if c.mariadb => executed,
            // read from `executed`, given out from the written end
            _ => first(self.appended),
        };
        if c.is(Fault::SkippedNotReached) {
            self.unsent = executed;
        }
        if c.is(Fault::XaRecoverNotAsked) {
            self.unheld = executed;
        } else if (c.mariadb || c.is(Fault::StartAtExecutedOnly))
            && let Some(oldest) = h.open_branch(self.skipped)
        {
            // from before the oldest branch that is still open
            self.skipped &= first(oldest);
        }
        let given_out = if c.is(Fault::StartAtWrittenOnly) { 0 } else { self.skipped };
        self.renew_decisions(given_out);
        self.skip();
        if !c.is(Fault::CommitBeforeCheckpoint) && !self.sink.any {
            let (done, wanted) = self.done_and_wanted();
            self.checkpoint = Checkpoint { any: true, position: self.position, done, wanted };
        }
    }
    fn renew_decisions(&mut self, given_out: u16) {
        self.decisions = Rc::new(Decisions::new(Mask(given_out)));
        self.changed = true;
        self.told = 0;
        self.dropped = None;
    }
    fn skip(&mut self) {
        while self.position < self.appended && has(self.skipped, self.position) {
            self.position += 1;
        }
    }

    fn read_row(&mut self, h: &History, c: &Settings) {
        let transaction = &h.log[usize::from(self.position)];
        let emits = self.emits();
        let noted = emits || !c.is(Fault::ReplayNotNoted);
        let events = match transaction.kind {
            Kind::XaCommit(p) if has(self.unheld, p) => &[],
            Kind::Plain | Kind::XaCommit(_) => transaction.events.as_slice(),
            Kind::XaPrepare | Kind::XaRollback(_) | Kind::Truncate => &[],
        };
        if let Some(event) = events.get(usize::from(self.row)) {
            if emits {
                match *event {
                    Event::Diff(key, _) | Event::Move(key, _) if c.lost && !self.whole => {
                        // no copy of the source until the row has been read again
                        self.shown = false;
                        Event::Delete(key).apply(&mut self.target);
                    }
                    event => event.apply(&mut self.target),
                }
            }
            let at_prepare = c.is(Fault::XaNotedAtPrepare) && matches!(transaction.kind, Kind::XaCommit(_));
            if noted && !at_prepare {
                self.note(c, *event);
            }
            self.row += 1;
        }
        match transaction.kind {
            Kind::XaPrepare if c.is(Fault::XaNotedAtPrepare) => {
                transaction.events.iter().for_each(|event| self.note(c, *event));
            }
            Kind::Truncate => {
                let any = |is: fn(Status) -> bool| self.slots.iter().any(|s| is(s.status));
                let out = match c.fault {
                    Some(Fault::DdlNotNoted) => true,
                    Some(Fault::DdlOnlyInFlight) => !any(Status::in_flight),
                    Some(Fault::DdlOnlyToHigh) => any(|s| s == Status::HighTaken),
                    _ => false,
                };
                if noted && !self.whole && !out {
                    let position = self.position;
                    self.decide().ddl(TABLE, &position);
                }
                if emits {
                    self.target = Table::default();
                }
            }
            _ => {}
        }
        if usize::from(self.row) == events.len() {
            self.row = 0;
            self.position += 1;
            self.skip();
        }
    }

    /// Tells the decisions of a row event.
    fn note(&mut self, c: &Settings, event: Event) {
        if self.whole {
            return;
        }
        let nothing = || Row::pack([]);
        let event = match event {
            Event::Put(key, _) => RowEvent::Whole { key: key_row(key) },
            Event::Set(key, _, _) if c.is(Fault::PartlyDropped) => RowEvent::Whole { key: key_row(key) },
            Event::Set(key, column, value) => {
                RowEvent::Partly { key: key_row(key), columns: partial_row(column, value) }
            }
            Event::Delete(key) => RowEvent::Deleted { key: key_row(key) },
            Event::Diff(key, _) if c.is(Fault::DiffTakenAsKnown) => {
                RowEvent::Partly { key: key_row(key), columns: nothing() }
            }
            Event::Diff(key, _) if c.lost => RowEvent::Lost { key: key_row(key) },
            Event::Diff(key, _) => RowEvent::Diff { key: key_row(key) },
            Event::Move(from, to) if c.is(Fault::MoveTakenAsKnown) => {
                self.touch(c, to, RowEvent::Partly { key: key_row(to), columns: nothing() });
                self.queue(c, to);
                RowEvent::Deleted { key: key_row(from) }
            }
            Event::Move(from, to) => RowEvent::Moved { from: key_row(from), to: key_row(to) },
        };
        let key = match &event {
            RowEvent::Whole { key }
            | RowEvent::Partly { key, .. }
            | RowEvent::Deleted { key }
            | RowEvent::Diff { key }
            | RowEvent::Lost { key }
            | RowEvent::Moved { from: key, .. } => key_of(key),
        };
        if let Some(key) = self.touch(c, key, event)
            && !c.is(Fault::MoveNotQueued)
        {
            self.queue(c, key_of(&key));
        }
    }
    fn touch(&mut self, c: &Settings, key: u8, event: RowEvent) -> Option<Row> {
        let mut transaction = self.position;
        if c.is(Fault::FirstTransactionKept) {
            transaction = *self.firsts[usize::from(key)].get_or_insert(transaction);
        }
        self.decide().touch(TABLE, &transaction, event)
    }
    /// Queues a key as a small chunk.
    fn queue(&mut self, c: &Settings, key: u8) {
        let slot = RANGES + key;
        if self.slots[usize::from(slot)].status.in_flight() {
            if !c.keep_small {
                self.drop_in_flight(slot);
            }
        } else {
            self.slots[usize::from(slot)] = Slot::of(Status::Pending);
        }
    }
    fn drop_in_flight(&mut self, slot: u8) {
        if let Some(number) = self.slots[usize::from(slot)].number {
            self.decide().drop_chunk(number);
            self.dropped = Some(number);
        }
        self.slots[usize::from(slot)] = Slot::of(Status::Pending);
    }

    fn announce(&mut self, c: &Settings, slot: u8) {
        let small = slot >= RANGES && !c.is(Fault::SmallChunkAsAnyOther);
        let key = small.then(|| key_row(slot - RANGES));
        let number = self.decide().announce(TABLE, key);
        self.slots[usize::from(slot)].number = Some(number);
    }
    fn judge_low(&mut self, h: &History, c: &Settings, slot: u8) {
        let Slot { number, low, status, .. } = self.slots[usize::from(slot)];
        if let Some(dropped) = self.dropped {
            // a late answer
            assert_eq!(
                Rc::make_mut(&mut self.decisions).low_watermark(dropped, &Mask(low)),
                Err(NotYet::Dropped)
            );
        }
        let number = number.expect("an announced chunk");
        let verdict = self.decide().low_watermark(number, &Mask(low));
        if verdict == Err(NotYet::Dropped) {
            panic!("the decisions know no chunk {number} of {self:#?}, {h:?}");
        }
        let slot = &mut self.slots[usize::from(slot)];
        match (verdict, status) {
            (Ok(()), Status::SelectedUnannounced | Status::SelectedWithoutLow) => {
                slot.status = Status::Selected;
            }
            (Ok(()), _) => slot.status = if c.mariadb { Status::Selected } else { Status::Ready },
            // asked again
            (Err(_), Status::SelectedWithoutLow) => slot.low = 0,
            (Err(_), Status::SelectedUnannounced) => {
                self.decide().drop_chunk(number);
                self.slots.iter_mut().filter(|s| s.number == Some(number)).for_each(|s| {
                    *s = Slot::of(Status::Pending);
                });
            }
            (Err(_), _) => (slot.status, slot.low, slot.rows) = (Status::Announced, 0, Table::default()),
        }
    }

    fn mend(&mut self, c: &Settings, i: u8) {
        let slot = self.slots[usize::from(i)];
        let row = |key| slot.rows.get(key).map(|row| (key_row(key), full_row(key, row)));
        let rows: Vec<(Row, Row)> = (0..KEYS).filter_map(row).collect();
        if let Some(dropped) = self.dropped {
            let late = Rc::make_mut(&mut self.decisions).mend(dropped, rows.clone());
            assert_eq!(late, Mended::Dropped, "a late answer");
        }
        let number = slot.number.expect("an announced chunk");
        let (rows, again) = match self.decide().mend(number, rows) {
            Mended::Rows { rows, again } => (rows, again),
            Mended::Void => {
                self.slots[usize::from(i)] = Slot::of(Status::Pending);
                return;
            }
            Mended::Dropped => panic!("the decisions know no chunk {number} of {self:#?}"),
        };
        self.slots[usize::from(i)] = Slot::of(Status::Done);
        let committed = c.is(Fault::RowsInCommittedTick) || c.is(Fault::RowsInReplayedTick) && self.replaying;
        let lost = committed && self.sink.any && self.row == 0 && self.position <= self.sink.position;
        for row in &rows {
            let (key, columns) = columns_of(row);
            if c.is(Fault::RowsLate) {
                self.slots[usize::from(i)].status = Status::RowsUnderWay;
                self.slots[usize::from(i)].rows.set(key, Some(columns));
            } else if !lost {
                self.target.set(key, Some(columns));
            }
        }
        let ignored = c.is(Fault::AgainIgnored) || c.is(Fault::SmallChunkAsAnyOther) && i >= RANGES;
        for key in again.iter().filter(|_| !ignored) {
            self.queue(c, key_of(key));
        }
    }

    fn crash(&mut self, h: &History, c: &Settings) {
        self.crashes -= 1;
        self.replaying = c.is(Fault::RowsInReplayedTick);
        if c.is(Fault::XaLostByRestart) {
            for (i, transaction) in (0..self.checkpoint.position).zip(&h.log) {
                self.unheld |= u16::from(transaction.kind == Kind::XaPrepare) << i;
            }
        }
        self.row = 0;
        self.target = self.sink.target;
        self.shown = self.sink.shown;
        if c.lost {
            // A checkpoint tells what its own run has finished. (What an earlier one had finished is at the target too, but
            // a row that was lost since is wanted by this run only because the table is not whole for it.)
            self.sink.done &= self.checkpoint.done;
            self.sink.wanted |= self.checkpoint.wanted;
        }
        self.whole = false;
        self.firsts = [None; KEYS as usize];
        if self.checkpoint.any {
            self.set_slots(self.checkpoint.done, self.checkpoint.wanted);
            self.position = self.checkpoint.position;
            let given_out = self.skipped | first(self.position);
            self.renew_decisions(if c.is(Fault::RestartForgets) { 0 } else { given_out });
        } else {
            self.set_slots(0, c.ranges());
            (self.started, self.position, self.skipped) = (false, 0, 0);
            self.renew_decisions(0);
        }
    }

    /// What is wrong with this state.
    pub fn violation(&self, h: &History) -> Option<&'static str> {
        if !(self.started && self.shown && self.row == 0 && self.emits()) {
            return None;
        }
        let source = h.at[usize::from(self.position)];
        (0..KEYS).find_map(|key| match (self.target.get(key), source.get(key)) {
            (here, there) if here == there => None,
            (None, _) => Some("a row is lost"),
            (_, None) => Some("a row of the target is a ghost"),
            _ => Some("a row is of another time"),
        })
    }

    /// All is read and copied.
    pub fn is_end(&self, h: &History) -> bool {
        let all = first(h.log.len() as u8);
        self.started
            && self.counted == all
            && self.committed == all
            && usize::from(self.position) == h.log.len()
            && self.all_done()
    }

    /// Equal exactly for states with the same future, but for accidents.
    pub fn fingerprint(&self) -> u64 {
        let bits = |values: &[u64]| values.iter().fold(0u64, |all, v| all << 8 | v);
        let mut mix = Mix(self.digest);
        let flags = [self.started, self.whole, self.shown, self.replaying, self.sink.any, self.sink.shown];
        let flags = flags.iter().fold(u64::from(self.checkpoint.any), |all, f| all << 1 | u64::from(*f));
        mix.add(
            bits(&[self.appended, self.position, self.row, self.crashes, self.drops].map(u64::from)) << 8
                | flags,
        );
        mix.add(u64::from(self.committed) << 32 | u64::from(self.counted) << 16 | u64::from(self.skipped));
        mix.add(u64::from(self.unsent) << 32 | u64::from(self.unheld) << 16 | u64::from(self.told));
        let Durable { position, done, wanted, .. } = self.sink;
        let sink = bits(&[position, done, wanted].map(u64::from));
        let Checkpoint { position, done, wanted, .. } = self.checkpoint;
        mix.add(sink << 24 | bits(&[position, done, wanted].map(u64::from)));
        mix.add(self.target.0);
        mix.add(self.sink.target.0);
        mix.add(bits(&self.firsts.map(|f| f.map_or(0, |t| u64::from(t) + 1))));
        for slot in &self.slots {
            mix.add(
                u64::from(slot.low) << 32
                    | u64::from(slot.high) << 16
                    | (slot.status as u64) << 1
                    | u64::from(slot.stale),
            );
            if slot.rows.0 != 0 {
                mix.add(slot.rows.0);
            }
        }
        mix.0
    }
}

struct Mix(u64);

impl Mix {
    fn add(&mut self, value: u64) {
        let mut z = (self.0 ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        z ^= z >> 29;
        z = z.wrapping_mul(0xBF58_476D_1CE4_E5B9);
        self.0 = (z ^ z >> 32).wrapping_add(0x94D0_49BB_1331_11EB);
    }
}
