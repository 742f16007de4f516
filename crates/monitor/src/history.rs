//! A history of any length in bounded memory.
//!
//! ```text
//!   points   . . . . | . . . . | . . . . | . .        bucket i: points i 2^k to (i+1) 2^k - 1
//!   bucket   first, least, greatest, last (t, y), row of the first
//!                        all full: pairs are joined, k + 1; new points are gathered at the same k
//!   detail   of a bucket that is wider than half a column: its points, read again and thinned
//!   tail     the points of the open bucket, all of them
//! ```
//!
//! Buckets have as many points, not as much time: where time steps grow, one bucket may be as wide as
//! half the picture. [`History::draw`] therefore says which buckets want to be opened, and whoever
//! keeps the points for good ([`crate::Past`]) gives them to [`History::open`].

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::reduce::{self, Axis, Points, Window};

/// Most and fewest buckets of a curve; powers of two.
const BUCKETS: (usize, usize) = (512, 8192);
/// Bytes for the buckets of all curves of a run.
const BUCKET_BYTES: usize = 64 << 20;
/// Most and fewest points of opened buckets of a curve, and of all curves of a run.
const DETAILS: (usize, usize) = (1 << 15, 1 << 18);
const ALL_DETAILS: usize = 1 << 22;
/// Most columns for which buckets are opened.
const FINEST: u32 = 2048;
/// Most buckets that one picture wants to be opened.
const WANTS: usize = 4096;
/// Most points of opened buckets in one picture of a curve whose abscissae go back.
const FOLDED: usize = 1 << 16;

/// What one curve may keep.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    buckets: usize,
    details: usize,
}

impl Limits {
    /// When so many curves share the memory.
    pub fn of(curves: usize) -> Limits {
        let curves = curves.max(1);
        let fit = BUCKET_BYTES / size_of::<Bucket>() / curves;
        let power = (fit + 1).next_power_of_two() / 2;
        Limits {
            buckets: power.clamp(BUCKETS.0, BUCKETS.1),
            details: (ALL_DETAILS / curves).clamp(DETAILS.0, DETAILS.1),
        }
    }
}

type Point = (f64, f64);

/// Some points that follow each other.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// First and last point with a finite ordinate, least and greatest.
    first: Point,
    last: Point,
    least: Point,
    greatest: Point,
    /// Least and greatest abscissa.
    from: f64,
    to: f64,
    /// Rows of the first and of the last point.
    rows: (i64, i64),
    count: u32,
    /// Points without a finite ordinate.
    gaps: u32,
    /// Whether the least one comes before the greatest one.
    falls: bool,
    /// A point in it was changed: what is known of it holds roughly, until its points are read again.
    stale: bool,
}

impl Bucket {
    fn new(row: i64, t: f64, y: f64) -> Bucket {
        let p = (t, y);
        let gaps = u32::from(!y.is_finite());
        Bucket {
            first: p,
            last: p,
            least: p,
            greatest: p,
            from: t,
            to: t,
            rows: (row, row),
            count: 1,
            gaps,
            falls: true,
            stale: false,
        }
    }

    /// The bucket of points that follow each other, kept in these rows.
    fn of(points: &Points, rows: (i64, i64)) -> Option<Bucket> {
        let finite = points.x.iter().zip(&points.y).filter(|(t, _)| t.is_finite());
        let all = finite.map(|(t, y)| Bucket::new(rows.0, *t, *y));
        let mut bucket = all.reduce(|mut all, next| {
            all.join(&next);
            all
        })?;
        bucket.rows = rows;
        Some(bucket)
    }

    /// Takes in what follows.
    fn join(&mut self, next: &Bucket) {
        if self.is_gap() {
            let (from, to) = (self.from.min(next.from), self.to.max(next.to));
            let (count, gaps) = (self.count + next.count, self.gaps + next.gaps);
            let stale = self.stale || next.stale;
            *self = Bucket { rows: (self.rows.0, next.rows.1), from, to, count, gaps, stale, ..*next };
            return;
        }
        if !next.is_gap() {
            let (lower, higher) = (next.least.1 < self.least.1, next.greatest.1 > self.greatest.1);
            self.falls = match (lower, higher) {
                (true, true) => next.falls,
                (true, false) => false,
                (false, true) => true,
                (false, false) => self.falls,
            };
            self.least = if lower { next.least } else { self.least };
            self.greatest = if higher { next.greatest } else { self.greatest };
            self.last = next.last;
        }
        self.from = self.from.min(next.from);
        self.to = self.to.max(next.to);
        self.rows.1 = next.rows.1;
        self.count += next.count;
        self.gaps += next.gaps;
        self.stale |= next.stale;
    }

    fn is_gap(&self) -> bool {
        self.gaps == self.count
    }

    fn width(&self, axis: &Axis) -> f64 {
        axis.place(self.to) - axis.place(self.from)
    }

    fn draw(&self, out: &mut Points) {
        if self.is_gap() {
            out.push(self.from, f64::NAN);
            return;
        }
        let middle = if self.falls { [self.least, self.greatest] } else { [self.greatest, self.least] };
        let mut before = None;
        for p in [self.first, middle[0], middle[1], self.last] {
            if before != Some(p) {
                out.push(p.0, p.1);
                before = Some(p);
            }
        }
    }
}

/// A bucket opened: its points, thinned to columns of this width.
#[derive(Clone, Debug)]
struct Detail {
    points: Arc<Points>,
    /// 0 when nothing was left out.
    grain: f64,
}

/// By bucket, and whether for a logarithmic axis.
type Details = BTreeMap<(usize, bool), Detail>;

/// A bucket that wants to be opened.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Want {
    /// Its number, and its points as a power of two.
    pub bucket: usize,
    /// See `bucket`.
    pub power: u32,
    /// Rows of its first and of its last point.
    pub rows: (i64, i64),
    axis: Axis,
    grain: f64,
}

/// A history, drawn.
#[derive(Debug, Default)]
pub struct Drawn {
    /// What is to be seen of it.
    pub points: Points,
    /// Whether points were left out.
    pub reduced: bool,
    /// Buckets that stand for more than can be seen.
    pub wants: Vec<Want>,
}

/// One curve over time.
#[derive(Clone, Debug)]
pub struct History {
    power: u32,
    buckets: Vec<Bucket>,
    tail: Points,
    details: Details,
    /// Points of all details.
    detailed: usize,
    /// All were closed to make room, since somebody looked at something else.
    cleared: bool,
    /// There was no room nevertheless.
    crowded: bool,
    folded: bool,
    from: f64,
    to: f64,
    /// Least positive abscissa.
    floor: f64,
}

impl Default for History {
    fn default() -> Self {
        History {
            power: 0,
            buckets: Vec::new(),
            tail: Points::default(),
            details: BTreeMap::new(),
            detailed: 0,
            cleared: false,
            crowded: false,
            folded: false,
            from: f64::INFINITY,
            to: f64::NEG_INFINITY,
            floor: f64::INFINITY,
        }
    }
}

impl History {
    /// Adds a point, kept in that row. A point at no finite time cannot be drawn and is passed over.
    pub fn append(&mut self, row: i64, t: f64, y: f64, limits: Limits) {
        if !t.is_finite() {
            return;
        }
        self.folded |= t < self.to;
        self.from = self.from.min(t);
        self.to = self.to.max(t);
        if t > 0.0 {
            self.floor = self.floor.min(t);
        }
        let point = Bucket::new(row, t, y);
        if !self.is_open() {
            self.keep_tail(limits);
            while self.buckets.len() >= limits.buckets {
                self.join_pairs();
            }
        }
        let open = self.is_open();
        match self.buckets.last_mut().filter(|_| open) {
            Some(bucket) => bucket.join(&point),
            None => {
                self.tail = Points::default();
                self.buckets.push(point);
            }
        }
        self.tail.push(t, y);
    }

    /// The point of that row has another ordinate. Where its bucket is closed, the bucket is read again when it
    /// is looked at.
    pub fn amend(&mut self, row: i64, t: f64, y: f64) {
        let at = self.buckets.partition_point(|b| b.rows.1 < row);
        let Some(bucket) = self.buckets.get(at).filter(|b| b.rows.0 <= row) else { return };
        let (rows, last) = (bucket.rows, at + 1 == self.buckets.len());
        let tail = self.tail.x.iter().rposition(|x| *x == t).filter(|_| last);
        if bucket.count == 1 {
            self.buckets[at] = Bucket::new(row, t, y);
        } else if tail.is_none() {
            self.buckets[at].stale = true;
            self.forget_detail(at);
        }
        if let Some(i) = tail {
            self.tail.y[i] = y;
            // Without all of its points here, the bucket is no more than was known of it before.
            if let Some(new) = Bucket::of(&self.tail, rows).filter(|b| b.count == self.buckets[at].count) {
                self.buckets[at] = new;
            }
        }
    }

    fn forget_detail(&mut self, bucket: usize) {
        for log in [false, true] {
            if let Some(old) = self.details.remove(&(bucket, log)) {
                self.detailed -= old.points.len();
            }
        }
    }

    /// Whether the last bucket takes more points.
    fn is_open(&self) -> bool {
        self.buckets.last().is_some_and(|b| u64::from(b.count) < 1 << self.power)
    }

    /// The last bucket is full: where it is wide, what is to be seen of it stays.
    fn keep_tail(&mut self, limits: Limits) {
        let Some(last) = self.buckets.last() else { return };
        let axis = self.axis(&Window { columns: FINEST, range: None, log: false });
        if self.power > 0 && last.width(&axis) > axis.column / 2.0 {
            let points = std::mem::take(&mut self.tail);
            let bucket = self.buckets.len() - 1;
            self.detail(bucket, &points, &axis, axis.column / 2.0, limits.details);
            self.tail = points;
        }
    }

    /// Twice as many points a bucket. A last one without a mate is open then, and its points are the tail.
    fn join_pairs(&mut self) {
        let old = std::mem::take(&mut self.details);
        self.detailed = 0;
        (self.cleared, self.crowded) = (false, false);
        for (bucket, log) in old.keys() {
            // The first of a pair that has a detail makes that of both.
            let pair = bucket / 2;
            if !self.details.contains_key(&(pair, *log))
                && let Some(detail) = self.joined(&old, pair, *log)
            {
                self.detailed += detail.points.len();
                self.details.insert((pair, *log), detail);
            }
        }
        let pairs = self.buckets.chunks(2).map(|pair| {
            let mut joined = pair[0];
            if let Some(next) = pair.get(1) {
                joined.join(next);
            }
            joined
        });
        self.buckets = pairs.collect();
        self.power += 1;
    }

    /// The details of a pair of buckets as that of both, no finer than the whole can be seen.
    fn joined(&self, old: &Details, pair: usize, log: bool) -> Option<Detail> {
        let axis = self.axis(&Window { columns: FINEST, range: None, log });
        let (mut all, mut grain) = (Points::default(), axis.column / 2.0);
        let (mut width, mut gaps) = (0.0, 0);
        for i in [2 * pair, 2 * pair + 1] {
            let Some(bucket) = self.buckets.get(i) else { break };
            width += bucket.width(&axis);
            gaps += bucket.gaps;
            match old.get(&(i, log)) {
                Some(detail) => {
                    all.x.extend_from_slice(&detail.points.x);
                    all.y.extend_from_slice(&detail.points.y);
                    grain = grain.max(detail.grain);
                }
                None => {
                    bucket.draw(&mut all);
                    grain = grain.max(bucket.width(&axis));
                }
            }
        }
        if gaps == 0 && width < axis.column / 2.0 {
            return None;
        }
        let mut points = Points::default();
        reduce::thin(&all.x, &all.y, |t| axis.cell(t, axis.column / 2.0), &mut points);
        Some(Detail { points: Arc::new(points), grain })
    }

    fn axis(&self, window: &Window) -> Axis {
        let window = Window { columns: window.columns.clamp(1, FINEST), ..*window };
        let floor = if self.floor.is_finite() { self.floor } else { 1.0 };
        Axis::of(&window, self.from, self.to, floor)
    }

    /// What is to be seen through a window.
    pub fn draw(&self, window: &Window) -> Drawn {
        let mut all = Drawn { reduced: self.power > 0, ..Drawn::default() };
        let axis = self.axis(window);
        let mut opened = 0;
        for i in self.in_sight(window.range) {
            let bucket = &self.buckets[i];
            let is_wide = bucket.width(&axis) > axis.column / 2.0 && axis.column > 0.0;
            let has_gap = bucket.gaps > 0 && !bucket.is_gap();
            if bucket.count == 1 || !(is_wide || has_gap || bucket.stale) {
                bucket.draw(&mut all.points);
                continue;
            }
            if i + 1 == self.buckets.len() {
                reduce::thin(
                    &self.tail.x,
                    &self.tail.y,
                    |t| axis.cell(t, axis.column / 2.0),
                    &mut all.points,
                );
                continue;
            }
            let detail = self.details.get(&(i, window.log)).or_else(|| self.exact(i, window.log));
            let room = !self.folded || opened < FOLDED;
            let may_want = room && !self.crowded && all.wants.len() < WANTS;
            if may_want && detail.is_none_or(|d| d.grain > axis.column / 2.0) {
                let grain = axis.column / 2.0;
                all.wants.push(Want { bucket: i, power: self.power, rows: bucket.rows, axis, grain });
            }
            match detail.filter(|_| room) {
                Some(detail) => {
                    opened += detail.points.len();
                    all.points.x.extend_from_slice(&detail.points.x);
                    all.points.y.extend_from_slice(&detail.points.y);
                }
                None => bucket.draw(&mut all.points),
            }
        }
        let columns = window.columns.max(1) as usize;
        if all.points.len() > 4 * columns {
            let every = std::mem::take(&mut all.points);
            let axis =
                Axis::of(window, self.from, self.to, if self.floor.is_finite() { self.floor } else { 1.0 });
            reduce::thin(&every.x, &every.y, |t| axis.number(t), &mut all.points);
            all.reduced = true;
        }
        all
    }

    /// All points of a bucket serve any axis.
    fn exact(&self, bucket: usize, log: bool) -> Option<&Detail> {
        self.details.get(&(bucket, !log)).filter(|d| d.grain == 0.0)
    }

    /// The buckets in sight, with one more at each side.
    fn in_sight(&self, range: Option<(f64, f64)>) -> std::ops::Range<usize> {
        match range {
            Some((a, b)) if !self.folded => {
                let from = self.buckets.partition_point(|bucket| bucket.to < a).saturating_sub(1);
                let to = self.buckets.partition_point(|bucket| bucket.from <= b) + 1;
                from..to.min(self.buckets.len())
            }
            _ => 0..self.buckets.len(),
        }
    }

    /// Whether a bucket that was wanted still is.
    pub fn still_wants(&self, want: &Want) -> bool {
        let same = |b: &&Bucket| self.power == want.power && b.rows == want.rows;
        let Some(bucket) = self.buckets.get(want.bucket).filter(same) else { return false };
        let log = want.axis.is_log();
        let detail = self.details.get(&(want.bucket, log)).or_else(|| self.exact(want.bucket, log));
        bucket.count > 1 && detail.is_none_or(|d| d.grain > want.grain)
    }

    /// The points of a bucket that was wanted. Without room for them what was opened before is closed,
    /// which may serve no view any more; the second time nothing more is wanted until somebody looks at
    /// something else.
    pub fn open(&mut self, want: &Want, points: &Points, limits: Limits) {
        if !self.still_wants(want) {
            return;
        }
        if self.buckets[want.bucket].stale
            && let Some(new) = Bucket::of(points, want.rows)
        {
            self.buckets[want.bucket] = new;
        }
        let mut fits = self.detail(want.bucket, points, &want.axis, want.grain, limits.details);
        if !fits && !std::mem::replace(&mut self.cleared, true) {
            self.close_all();
            fits = self.detail(want.bucket, points, &want.axis, want.grain, limits.details);
        }
        self.crowded = !fits;
    }

    fn close_all(&mut self) {
        self.details.clear();
        self.detailed = 0;
    }

    /// Keeps what is to be seen of a bucket. False: there is no room.
    fn detail(&mut self, bucket: usize, points: &Points, axis: &Axis, grain: f64, most: usize) -> bool {
        let mut thinned = Points::default();
        reduce::thin(&points.x, &points.y, |t| axis.cell(t, grain), &mut thinned);
        let exact = thinned.len() * 4 >= points.len() * 3;
        let (points, grain) = if exact { (points.clone(), 0.0) } else { (thinned, grain) };
        let key = (bucket, axis.is_log());
        let old = self.details.get(&key).map_or(0, |d| d.points.len());
        let after = self.detailed - old + points.len();
        if after > most {
            return false;
        }
        self.detailed = after;
        self.details.insert(key, Detail { points: Arc::new(points), grain });
        true
    }

    /// Somebody looks at something else: where there was no room, what was opened is closed.
    pub fn look_anew(&mut self) {
        self.cleared = false;
        if std::mem::take(&mut self.crowded) {
            self.close_all();
        }
    }

    /// How many points there are.
    #[cfg(test)]
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|b| u64::from(b.count)).sum()
    }

    /// Whether [`History::look_anew`] would change anything.
    pub fn is_crowded(&self) -> bool {
        self.crowded || self.cleared
    }
}

#[cfg(test)]
#[path = "history_tests.rs"]
mod tests;
