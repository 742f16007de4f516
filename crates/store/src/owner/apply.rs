//! Small records into the catalog: what one record does in the transaction of its group.

use super::machine::{Effect, Item, Tell, not_a_clients};
use crate::catalog::{self, Brings, Completed, Fate, PutOutcome, Value, sql_error};
use forebay_types::codec::Reader;
use forebay_types::control::{Ask, Followed, History};
use forebay_types::record::{Payload, Record};
use forebay_types::watch::Declare;
use forebay_types::watch::level::WARNING;
use forebay_types::{Code, Error, Result};
use rusqlite::Connection;
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};

/// Gives the record of a session that begins at a position of its ring.
pub(super) type Rings<'a> = dyn Fn(u64, u64) -> Result<Vec<u8>> + 'a;

/// Whether somebody reads a file of the run just now.
pub(super) type Reads<'a> = dyn Fn(&str) -> bool + 'a;

/// Which sessions of a group bring the rest of another one.
type Bringing = BTreeMap<u64, Option<Brings>>;
/// Those that are clients'.
type Clients = BTreeSet<u64>;
/// What a group is applied with.
#[derive(Clone, Copy)]
struct Around<'a> {
    rings: &'a Rings<'a>,
    reads: &'a Reads<'a>,
    bringing: &'a Bringing,
    clients: &'a Clients,
    /// Sessions that are over when ranks go back.
    over: &'a [u64],
}

/// The effects of a group; how far each session is applied goes into the same transaction.
pub(super) fn apply_all(
    conn: &Connection,
    group: &[Item],
    rings: &Rings,
    reads: &Reads,
) -> Result<Vec<Effect>> {
    let mut effects = Vec::new();
    let mut applied = BTreeMap::new();
    let (mut bringing, mut clients) = (Bringing::new(), Clients::new());
    let mut over = &[][..];
    for item in group {
        if let Item::Over { sessions } = item {
            over = sessions;
        }
        if let Some((session, _)) = item.source()
            && !bringing.contains_key(&session)
        {
            bringing.insert(session, catalog::brings(conn, session)?);
            if catalog::is_client(conn, session)? {
                clients.insert(session);
            }
        }
        apply(
            conn,
            item,
            Around { rings, reads, bringing: &bringing, clients: &clients, over },
            &mut effects,
        )?;
        if let Some((session, seq)) = item.source() {
            let last: &mut u64 = applied.entry(session).or_default();
            *last = seq.max(*last);
        }
    }
    applied.into_iter().try_for_each(|(session, seq)| catalog::set_applied(conn, session, seq))?;
    Ok(effects)
}

/// Whether the failure is the disk's, so that the whole group is tried again.
fn is_the_disks(e: &Error) -> bool {
    matches!(e.code(), Code::Full | Code::Io | Code::ReadOnly)
}

/// Applies one item. A failure that is the record's own fault undoes the record alone and
/// becomes an effect; a failure of the disk fails the group.
fn apply(conn: &Connection, item: &Item, around: Around, effects: &mut Vec<Effect>) -> Result<()> {
    let point = |sql: &str| {
        conn.prepare_cached(sql)
            .and_then(|mut s| s.execute(()))
            .map(|_| ())
            .map_err(|e| sql_error("the catalog cannot be written", e))
    };
    // A put is one statement, which undoes itself.
    let whole = item.is_put();
    if !whole {
        point("SAVEPOINT fb_record")?;
    }
    let mut made = Vec::new();
    match perform(conn, item, around, &mut made) {
        Ok(()) => {
            if !whole {
                point("RELEASE fb_record")?;
            }
            made.iter().try_for_each(|e| keep(conn, e))?;
            effects.append(&mut made);
        }
        // The failure that an item brings with it is its own, whatever it was.
        Err(e) if is_the_disks(&e) && !matches!(item, Item::Failed { .. }) => return Err(e),
        Err(e) => {
            if !whole {
                point("ROLLBACK TO fb_record")?;
                point("RELEASE fb_record")?;
            }
            if let Item::Stored { stored, .. } = item {
                effects.push(Effect::DeleteFile(stored.file.clone()));
            }
            if let Some(fault) = fault(item, e) {
                keep(conn, &fault)?;
                effects.push(fault);
            }
        }
    }
    Ok(())
}

/// Keeps what a rank waits for, so that a successor can tell it.
fn keep(conn: &Connection, effect: &Effect) -> Result<()> {
    let (session, seq, outcome) = match effect {
        Effect::Answer { session, seq, result } => (session, seq, result.as_ref().map(Json::to_string)),
        Effect::Version { session, seq, outcome } => (session, seq, outcome.as_ref().map(u64::to_string)),
        _ => return Ok(()),
    };
    catalog::keep_answer(conn, *session, *seq, outcome)
}

/// How the rank hears of a failure: as the answer to its request, or late.
fn fault(item: &Item, error: Error) -> Option<Effect> {
    if let Item::Step { manifest, .. } | Item::Partial { manifest, .. } = item {
        return Some(Effect::Unlisted { step: manifest.step, error });
    }
    let (session, seq) = item.source()?;
    if let Item::Record { bytes, .. } | Item::Stored { bytes, .. } | Item::Failed { bytes, .. } = item {
        match Record::decode(bytes) {
            Ok((_, Record::Ask { .. })) => {
                return Some(Effect::Answer { session, seq, result: Err(error) });
            }
            Ok((_, Record::Put { if_version: Some(_), .. })) => {
                return Some(Effect::Version { session, seq, outcome: Err(error) });
            }
            _ => {}
        }
    }
    let record = match item {
        Item::Record { bytes, .. } => Some((seq, bytes.clone())),
        _ => None,
    };
    Some(Effect::Late { session, error, record })
}

/// What is brought of a session from before the run went back speaks for nobody who is there: it changes nothing that
/// is there, and adds nothing that is made again.
fn means_nothing(conn: &Connection, record: &Record, brings: &Brings) -> Result<bool> {
    Ok(match record {
        // Rows of other tables than histories stay, whatever step they were inserted at.
        Record::Insert { table, step, .. } => {
            brings.is_gone(*step) && catalog::table_of(conn, *table)?.is_none_or(|t| t.history)
        }
        Record::Append { step, .. } => brings.is_gone(*step),
        Record::Put { name, set, .. } => {
            brings.gone_from.is_some() && catalog::data_row(conn, name, *set)?.is_some()
        }
        Record::Ask { json } => {
            let stays = matches!(serde_json::from_str(json), Ok(Ask::Close { .. } | Ask::Table { .. }));
            brings.gone_from.is_some() && !stays
        }
        Record::Declare { .. } => true,
        _ => false,
    })
}

/// What a client may not ask for; its end says nothing of whether the run has come to its own.
fn check_clients(conn: &Connection, record: &Record) -> Result<()> {
    match record {
        Record::Insert { table, .. } if catalog::table_of(conn, *table)?.is_some_and(|t| t.history) => {
            Err(not_a_clients("adds no rows to a history"))
        }
        Record::Declare { .. } => Err(not_a_clients("declares nothing")),
        Record::Append { .. } => Err(not_a_clients("adds no points to a diagram")),
        Record::Applied { .. } => Err(not_a_clients("carries out no acts")),
        Record::Ask { json } => match serde_json::from_str(json) {
            Ok(
                Ask::Restart { .. }
                | Ask::Renew { .. }
                | Ask::Follow { .. }
                | Ask::GoOn { .. }
                | Ask::DropStep { .. }
                | Ask::Pack { .. }
                | Ask::PackEvery { .. }
                | Ask::Keep { .. }
                | Ask::Checkpoint { .. },
            ) => Err(not_a_clients("keeps, drops and goes back to no snapshots")),
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

fn perform(conn: &Connection, item: &Item, around: Around, effects: &mut Vec<Effect>) -> Result<()> {
    let Around { rings, reads, bringing, clients, over } = around;
    let is_client = item.source().is_some_and(|(session, _)| clients.contains(&session));
    if let (true, Item::Record { bytes, session, seq }) = (is_client, item) {
        let record = Record::decode(bytes)?.1;
        check_clients(conn, &record)?;
        if let Record::Ask { json } = record
            && let Ok(ask @ Ask::Close { .. }) = serde_json::from_str(json)
        {
            effects.push(Effect::Later { session: *session, seq: *seq, ask });
            return Ok(());
        }
    }
    let brings = item.source().and_then(|(session, _)| *bringing.get(&session)?);
    if let (Some(brings), Item::Record { bytes, .. } | Item::Stored { bytes, .. }) = (brings, item)
        && means_nothing(conn, &Record::decode(bytes)?.1, &brings)?
    {
        if let Item::Stored { stored, .. } = item {
            effects.push(Effect::DeleteFile(stored.file.clone()));
        }
        return Ok(());
    }
    match item {
        Item::Pending { session, seq, step, at } => {
            catalog::keep_pending(conn, *session, *seq, *step, &rings(*session, *at)?)
        }
        Item::Settled { session, step, last } => catalog::settle_pending(conn, *session, *step, *last),
        Item::Unread { session, seq, bytes, why } => catalog::put_aside(conn, *session, *seq, bytes, why),
        Item::Failing(attempt) => catalog::note_attempt(conn, attempt),
        Item::Forgotten { attempt } => catalog::forget_attempt(conn, *attempt),
        Item::Record { session, seq, bytes } => {
            record(conn, (*session, *seq, brings, over), Record::decode(bytes)?.1, effects)
        }
        Item::Stored { session, seq, bytes, stored } => {
            let value = Value::File { file: &stored.file, offset: stored.offset, crc: stored.crc };
            put(conn, *session, *seq, Record::decode(bytes)?.1, Some(value), effects)
        }
        Item::Failed { error, .. } => Err(error.clone()),
        Item::Closed { session, away, .. } => {
            match away {
                Some(life) => catalog::note_away(conn, *session, *life)?,
                None => catalog::forget_away(conn, *session)?,
            }
            for Completed { diagram, curve, row, step, t, value } in catalog::close_session(conn, *session)? {
                let values = vec![(curve, value)];
                effects.push(Effect::Tell(Tell::Append { session: *session, diagram, row, step, t, values }));
            }
            effects.push(Effect::Closed { session: *session });
            Ok(())
        }
        Item::Step { manifest, file } => {
            forsake(conn, manifest.step, effects)?;
            catalog::add_step(conn, file, manifest)?;
            effects.push(Effect::Listed { step: manifest.step, time: manifest.time });
            outlive(conn, 0, reads, effects)
        }
        Item::MakeRoom { coming } => outlive(conn, *coming, reads, effects),
        Item::Partial { manifest, file } => {
            catalog::add_partial(conn, file, manifest)?;
            effects.push(Effect::Partial(manifest.clone()));
            Ok(())
        }
        Item::Over { .. } => Ok(()),
        Item::Brought { session } => {
            let steps = catalog::brought(conn, *session)?;
            steps.into_iter().try_for_each(|step| forsake(conn, step, effects).map(drop))
        }
        Item::Note { session, step, level, text } => catalog::message(conn, *session, *step, *level, text),
        Item::Asked { id, who, act } => catalog::log_act(conn, *id, who, act),
        Item::Ended { id, step, code, text } => catalog::log_applied(conn, *id, *step, *code, text),
    }
}

/// Drops steps that are older than those that stay. One that is read is dropped later, with a newer one.
fn outlive(conn: &Connection, coming: u64, reads: &Reads, effects: &mut Vec<Effect>) -> Result<()> {
    for (step, file) in catalog::outlived(conn, coming)?.into_iter().filter(|(_, file)| !reads(file)) {
        catalog::drop_step(conn, step)?;
        effects.push(Effect::Outlived { step, file });
    }
    Ok(())
}

/// What was kept of a step that lacked ranks is not needed any more; whether there was any.
fn forsake(conn: &Connection, step: i64, effects: &mut Vec<Effect>) -> Result<bool> {
    let file = catalog::forsake_partial(conn, step)?;
    let there = file.is_some();
    effects.extend(file.map(|file| Effect::Forsaken { step, file }));
    Ok(there)
}

fn put(
    conn: &Connection,
    session: u64,
    seq: u64,
    record: Record,
    stored: Option<Value>,
    effects: &mut Vec<Effect>,
) -> Result<()> {
    let Record::Put { name, set, meta, units, attrs, if_version, payload } = record else {
        return Err(Error::internal("a put that is none"));
    };
    let value = match (stored, payload) {
        (Some(value), _) => value,
        (None, Payload::Inline(bytes)) => Value::Small(bytes),
        (None, Payload::Block(_)) => return Err(Error::internal("a large put without its file")),
    };
    let p = catalog::Put { name, set, meta: &meta, units, attrs, if_version };
    let PutOutcome { version, replaced } = catalog::put(conn, &p, value)?;
    if let Some(version) = version {
        effects.push(Effect::Version { session, seq, outcome: Ok(version) });
    }
    if let Some(file) = replaced.filter(|f| !catalog::used(conn, f)) {
        effects.push(Effect::DeleteFile(file));
    }
    Ok(())
}

fn record(
    conn: &Connection,
    (session, seq, brings, over): (u64, u64, Option<Brings>, &[u64]),
    r: Record,
    effects: &mut Vec<Effect>,
) -> Result<()> {
    // What is brought is what that session has made.
    let maker = brings.map_or(session, |b| b.origin);
    match r {
        Record::Put { .. } => put(conn, session, seq, r, None, effects)?,
        Record::Insert { table, step, rows, cells } => {
            catalog::insert(conn, table, (maker, step), rows, cells)?
        }
        Record::Append { diagram, step, t, values } => {
            let by = catalog::Giver { session: maker, ..catalog::giver(conn, session, diagram)? };
            let is_late = brings.is_some_and(|b| b.is_earlier || b.gone_from.is_some());
            let give = if is_late { catalog::give_late } else { catalog::give_point };
            let mut first = None;
            let mut fresh = Vec::new();
            for (curve, value) in pairs(values)? {
                let curve = catalog::kept_curve(conn, session, diagram, curve)?;
                match give(conn, &by, curve, step, t, value)? {
                    // Rows of one record follow each other.
                    Fate::New(row, value) => {
                        first.get_or_insert(row);
                        fresh.push((curve, value));
                    }
                    Fate::Changed(row, value) => {
                        let at = (by.diagram, curve, row);
                        effects.push(Effect::Tell(Tell::Amend { session, at, t, value }));
                    }
                    Fate::Unseen => {}
                }
            }
            if let Some(row) = first {
                effects.push(Effect::Tell(Tell::Append {
                    session,
                    diagram: by.diagram,
                    row,
                    step,
                    t,
                    values: fresh,
                }));
            }
        }
        Record::Applied { id, step, code, text } => {
            catalog::log_applied(conn, id, step, code, text)?;
            if brings.is_some() {
                return Ok(());
            }
            effects.push(Effect::Tell(Tell::Applied { session, id, step, code, text: text.to_owned() }));
        }
        Record::Message { level, step, text } => {
            catalog::message(conn, session, step, level, text)?;
            effects.push(Effect::Tell(Tell::Message { session, level, step, text: text.to_owned() }));
        }
        Record::Declare { json } => {
            let what: Declare = serde_json::from_str(json)
                .map_err(|e| Error::bad(format!("a declaration cannot be read: {e}")))?;
            let what = catalog::declare(conn, session, &what)?;
            if let Declare::Progress { start, end, .. } = &what
                && end.is_none_or(|end| *start < end)
                && let Some(text) = catalog::doubled(conn, *start)?
            {
                remark(conn, session, text, effects)?;
            }
            effects.push(Effect::Tell(Tell::Declare { session, what }));
        }
        Record::Ask { json } => {
            let ask = serde_json::from_str(json)
                .map_err(|e| Error::bad(format!("a request cannot be read: {e}")))?;
            request(conn, (session, seq, over), ask, effects)?;
        }
        Record::StepBegin { .. }
        | Record::StepBlock(_)
        | Record::StepDescribe { .. }
        | Record::StepEnd { .. }
        | Record::StepDiscard { .. }
        | Record::StepEarly { .. } => return Err(Error::internal("a step's record among the small ones")),
    }
    Ok(())
}

/// A warning among the messages of the run.
fn warn(conn: &Connection, session: u64, text: String, effects: &mut Vec<Effect>) -> Result<()> {
    catalog::message(conn, session, -1, WARNING, &text)?;
    effects.push(Effect::Tell(Tell::Message { session, level: WARNING, step: -1, text }));
    Ok(())
}

/// A warning that the program says on its standard error, too.
fn remark(conn: &Connection, session: u64, text: String, effects: &mut Vec<Effect>) -> Result<()> {
    warn(conn, session, text.clone(), effects)?;
    effects.push(Effect::Remark { session, text });
    Ok(())
}

/// Pairs of curve number and value.
fn pairs(bytes: &[u8]) -> Result<Vec<(u32, f64)>> {
    let mut r = Reader::new(bytes);
    let mut out = Vec::new();
    while r.remaining() > 0 {
        out.push((r.u32()?, r.f64()?));
    }
    match out.len() > forebay_types::limits::CURVES {
        true => Err(Error::bad(format!("{} curves at once are beyond the limit", out.len()))),
        false => Ok(out),
    }
}

fn request(
    conn: &Connection,
    (session, seq, over): (u64, u64, &[u64]),
    ask: Ask,
    effects: &mut Vec<Effect>,
) -> Result<()> {
    let value = match &ask {
        Ask::Delete { pattern, set } => {
            let (n, files) = catalog::remove_data(conn, pattern, *set)?;
            effects.extend(files.into_iter().map(Effect::DeleteFile));
            json!(n)
        }
        Ask::Rename { from, to } => json!(catalog::rename_data(conn, from, to)?),
        Ask::Copy { from, to } => json!(catalog::copy_data(conn, from, to)?),
        Ask::SetAttrs { target, attrs } => {
            catalog::set_attributes(conn, target, attrs)?;
            json!(null)
        }
        Ask::Table { name, columns, history } => {
            serde_json::to_value(catalog::open_table(conn, name, columns, *history)?)
                .map_err(|e| Error::internal(e.to_string()))?
        }
        Ask::Index { table, columns } => {
            catalog::index(conn, table, columns)?;
            json!(null)
        }
        Ask::Refer { file } => {
            catalog::refer_to(conn, file)?;
            json!(null)
        }
        Ask::Update { table, set, condition, args } => {
            json!(catalog::update(conn, table, set, condition, args)?)
        }
        Ask::Remove { table, condition, args } => json!(catalog::remove(conn, table, condition, args)?),
        Ask::Restart { tag, strict } => {
            let partial = catalog::partial_files(conn)?;
            let (back, aside, is_first) = catalog::go_back(conn, session, tag.as_deref(), *strict)?;
            if is_first {
                over.iter().try_for_each(|n| catalog::note_past(conn, *n))?;
            }
            if tag.is_none() && !aside.is_empty() {
                let to = back.as_ref().map_or("the beginning".into(), |b| format!("step {}", b.step));
                let text = format!("a restart goes back to {to}: {} damaged", catalog::steps_are(&aside));
                warn(conn, session, text, effects)?;
            }
            if let (true, Some(back)) = (is_first, &back)
                && let Some(text) = catalog::cut_behind(conn, back)?
            {
                remark(conn, session, text, effects)?;
            }
            if let (true, Some(back)) = (is_first, &back)
                && let Some(text) = catalog::reduced_arrays(conn, back.step)?
            {
                warn(conn, session, format!("a restart goes on from them: {text}"), effects)?;
            }
            effects.push(Effect::WentBack { session, aside, is_first });
            let still = catalog::partial_files(conn)?;
            let gone = partial.into_iter().filter(|kept| !still.contains(kept));
            effects.extend(gone.map(|(step, file)| Effect::Forsaken { step, file }));
            json!(back)
        }
        Ask::Renew { step, parameters } => {
            catalog::renew(conn, *step, parameters)?;
            json!(null)
        }
        Ask::Follow { step } => {
            effects.push(Effect::Followed { session });
            let heads = step.map(|step| catalog::heads_of(conn, step)).transpose()?.flatten();
            json!(Followed { parameters: catalog::parameter_values(conn)?, heads })
        }
        Ask::GoOn { start, only } => {
            let is_first = match only {
                None => catalog::go_on_at(conn, session, *start)?,
                Some(History::Diagram(own)) => {
                    let diagram = catalog::giver(conn, session, *own)?.diagram;
                    catalog::makes_again(conn, session, *start, History::Diagram(diagram))?
                }
                Some(table) => catalog::makes_again(conn, session, *start, *table)?,
            };
            if is_first {
                effects.push(Effect::WentBack { session, aside: Vec::new(), is_first: false });
            }
            json!(null)
        }
        Ask::DropStep { step } => {
            let file = catalog::drop_step(conn, *step)?;
            let there = file.is_some();
            effects.extend(file.map(|file| Effect::Dropped { step: *step, file }));
            json!(forsake(conn, *step, effects)? || there)
        }
        Ask::Keep { keep } => {
            catalog::set_keep(conn, *keep)?;
            effects.push(Effect::Keeps);
            json!(null)
        }
        Ask::Close { finished } => {
            catalog::close_as(conn, session, *finished)?;
            effects.push(Effect::Later { session, seq, ask });
            return Ok(());
        }
        Ask::Checkpoint { tag } => json!(catalog::add_checkpoint(conn, tag.as_deref())?),
        _ => {
            effects.push(Effect::Later { session, seq, ask });
            return Ok(());
        }
    };
    effects.push(Effect::Answer { session, seq, result: Ok(value) });
    Ok(())
}
