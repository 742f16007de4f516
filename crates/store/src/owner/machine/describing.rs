//! What the ranks of a step say of its arrays, made one: names of axes, attributes, meshes and species. Each is said by all alike, or by
//! one; where they differ the lowest rank has its way, and all hear of it. The data are kept in any case.

use super::Machine;
use super::event::{Action, Ticket};
use super::item::Item;
use super::steps::Step;
use crate::stepfile::Facts;
use forebay_types::watch::level::WARNING;
use forebay_types::{ArrayMeta, Code, Description, Error, Mesh, Order, Result, axes, axis_path};
use std::collections::BTreeMap;

/// Most steps of which it is remembered that ranks differ, to tell who waits for one.
const MOST: usize = 256;

impl Machine {
    /// What a rank says of an array. That of a step that was refused, or given up, is nobody's.
    pub(super) fn take_description(
        &mut self,
        ticket: Ticket,
        step: i64,
        name: &str,
        json: &str,
    ) -> Result<()> {
        let Some(s) = self.sessions.get(&ticket.0) else { return Ok(()) };
        let (rank, refused) = (s.rank, s.refused.contains_key(&step));
        if refused || !self.steps.get(&step).is_some_and(|k| k.has(ticket.0)) {
            self.miss(ticket, step, None);
            return Ok(());
        }
        let said = Description::from_json(json)?;
        self.steps.get_mut(&step).map_or(Ok(()), |k| k.describe(rank, name, said))
    }

    /// What the arrays of a step say goes into its file; all ranks hear where they differ. The step is whole.
    pub(super) fn describe_file(&mut self, step: i64, facts: &mut Facts) {
        let Some(known) = self.steps.get(&step) else { return };
        let (said, mut disputes) = match known.said.is_empty() && known.disputes.is_empty() {
            true => Default::default(),
            false => known.descriptions(),
        };
        disputes.extend(known.unlike());
        let filled = said.values().filter_map(|about| about.filled).sum();
        self.disputed.remove(&step);
        (facts.said, facts.units) = (said, known.settled_units());
        let sessions = known.sessions();
        if let Some(known) = self.steps.get_mut(&step) {
            known.filled = filled;
        }
        self.hear_disputes(step, &sessions, disputes);
    }

    /// All ranks of a step hear what is wrong with its arrays, which are kept.
    pub(super) fn hear_disputes(&mut self, step: i64, sessions: &[u64], disputes: Vec<Error>) {
        for e in disputes.into_iter().map(|e| e.within(format!("step {step}"))) {
            self.disputed.entry(step).or_insert_with(|| e.clone());
            if self.disputed.len() > MOST {
                self.disputed.pop_first();
            }
            if let Some(session) = sessions.first() {
                let text = e.text().to_owned();
                self.group.push(Item::Note { session: *session, step, level: WARNING, text });
            }
            let mut said = false;
            for session in sessions.iter().copied() {
                if !self.sessions.get(&session).is_some_and(|s| s.hears()) {
                    continue;
                }
                if !std::mem::replace(&mut said, true) {
                    let text = e.text().to_owned();
                    self.out.push(Action::Say { session, level: WARNING, step, text });
                }
                self.out.push(Action::Late { session, error: e.clone() });
            }
        }
    }
}

impl Step {
    /// What each array says of itself, and what of it cannot be so.
    pub fn descriptions(&self) -> (BTreeMap<String, Description>, Vec<Error>) {
        let mut disputes = self.disputes.clone();
        let is_constant =
            |by_rank: &BTreeMap<u32, Description>| by_rank.values().any(|d| d.constant.is_some());
        let there =
            self.said.iter().filter(|(name, by_rank)| self.names.contains_key(*name) || is_constant(by_rank));
        let mut said: BTreeMap<String, Description> =
            there.map(|(name, by_rank)| (name.clone(), merged(name, by_rank, &mut disputes))).collect();
        said.retain(|name, about| about.constant.is_none() || self.has_room_for(name, &mut disputes));
        // Extents of the axes of each group, and whose they are.
        let mut lengths: BTreeMap<String, (u64, String)> = BTreeMap::new();
        for (name, about) in &mut said {
            if let Err(e) = self.lay_axes(name, about, &mut lengths) {
                let (attrs, filled) = (std::mem::take(&mut about.attrs), about.filled);
                *about = Description { attrs, filled, ..Description::default() };
                disputes.push(e);
            }
        }
        said.retain(|name, about| {
            let meets = |axis: &String| name.strip_prefix(axis.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
            let is_axis = about.constant.is_some() && lengths.keys().any(meets);
            if is_axis {
                disputes.push(Error::new(
                    Code::Conflict,
                    format!(
                        "{name:?} is a constant of the run, and is left out for an axis of that name; put the coordinate with coords, or rename one"
                    ),
                ));
            }
            !is_axis
        });
        for (name, about) in said.iter_mut().filter(|(_, about)| about.filled.is_some()) {
            about.filled = self.names.get(name).map(|n| n.pieces.missing(&n.meta));
        }
        self.join_meshes(&mut said, &mut disputes);
        said.retain(|_, about| !about.is_empty());
        (said, disputes)
    }

    /// Whether no rank has put an array where a constant of the run is to be.
    fn has_room_for(&self, constant: &str, disputes: &mut Vec<Error>) -> bool {
        let is_above =
            |group: &str, name: &str| name.strip_prefix(group).is_some_and(|rest| rest.starts_with('/'));
        let meets =
            |name: &&String| *name == constant || is_above(constant, name) || is_above(name, constant);
        let Some(other) = self.names.keys().find(meets) else { return true };
        disputes.push(Error::new(
            Code::Conflict,
            format!(
                "{constant:?} is a constant of the run, and is left out for the array {other:?}; rename one"
            ),
        ));
        false
    }

    /// The components of a mesh are those that lie on the grid of its first one.
    fn join_meshes(&self, said: &mut BTreeMap<String, Description>, disputes: &mut Vec<Error>) {
        let mut first: BTreeMap<String, (String, Mesh, Vec<String>, Order)> = BTreeMap::new();
        for (name, about) in said {
            let (Some(mesh), Some(named)) = (&about.mesh, self.names.get(name)) else { continue };
            let order = named.meta.order;
            let known = first
                .entry(mesh.name.clone())
                .or_insert_with(|| (name.clone(), mesh.clone(), about.dims.clone(), order));
            if !(mesh.goes_with(&known.1) && about.dims == known.2 && order == known.3) {
                disputes.push(Error::new(
                    Code::Conflict,
                    format!(
                        "{name:?} and {:?} are not of one mesh {:?}, and {name:?} is kept as an array of its own: give all components the same dims, spacing, origin and order",
                        known.0, mesh.name
                    ),
                ));
                about.mesh = None;
            }
        }
    }

    /// The axes of an array fit those of the same names.
    fn lay_axes(
        &self,
        name: &str,
        about: &Description,
        lengths: &mut BTreeMap<String, (u64, String)>,
    ) -> Result<()> {
        let Some(named) = self.names.get(name) else { return Ok(()) };
        about.check(name, &named.meta)?;
        for (dim, extent) in about.dims.iter().zip(axes(&named.meta)) {
            let path = axis_path(name, dim);
            let is_group =
                |other: &String| other.strip_prefix(&path).is_some_and(|rest| rest.starts_with('/'));
            if let Some(other) = self.names.keys().find(|other| is_group(other)) {
                return Err(clash(name, dim, &format!("{other:?} lies in a group of that name")));
            }
            if let Some(other) = self.names.get(&path).filter(|other| !is_coordinate(&other.meta, *extent)) {
                let what = format!("{path:?} is {}, no coordinate of {extent} elements", other.meta);
                return Err(clash(name, dim, &what));
            }
            let (known, whose) = lengths.entry(path).or_insert_with(|| (*extent, name.to_owned()));
            if known != extent {
                let what = format!("it has {extent} elements there and {known} in {whose:?}");
                return Err(clash(name, dim, &what));
            }
        }
        Ok(())
    }
}

/// Whether an array is the coordinate of an axis.
fn is_coordinate(meta: &ArrayMeta, extent: u64) -> bool {
    axes(meta) == [extent]
}

fn clash(name: &str, dim: &str, what: &str) -> Error {
    Error::new(
        Code::Conflict,
        format!(
            "the axis {dim:?} of {name:?} does not fit: {what}; {name:?} is kept without names of axes: use another name, or put one of them into a group"
        ),
    )
}

fn merged(name: &str, by_rank: &BTreeMap<u32, Description>, disputes: &mut Vec<Error>) -> Description {
    let mut all = Description::default();
    let (mut dims_of, mut attrs_of) = (0, BTreeMap::new());
    let mut differ = |what: String, rank: u32, lower: u32| {
        disputes.push(Error::new(
            Code::Conflict,
            format!(
                "{what} of {name:?} of rank {rank} are not those of rank {lower}, which are kept; let all ranks say the same, or one"
            ),
        ));
    };
    for (rank, said) in by_rank {
        if all.dims.is_empty() {
            (dims_of, all.dims) = (*rank, said.dims.clone());
        } else if !said.dims.is_empty() && said.dims != all.dims {
            differ(format!("dims = {:?}", said.dims), *rank, dims_of);
        }
        for (key, value) in &said.attrs {
            match all.attrs.get(key) {
                None => {
                    attrs_of.insert(key, *rank);
                    all.attrs.insert(key.clone(), value.clone());
                }
                Some(kept) if kept != value => {
                    differ(format!("the values of the attribute {key:?}"), *rank, attrs_of[key]);
                }
                Some(_) => {}
            }
        }
        all.filled = all.filled.or(said.filled);
        if adopt(&mut all.constant, &said.constant) {
            differ("the bytes".to_owned(), *rank, dims_of);
        }
        if adopt(&mut all.mesh, &said.mesh) {
            differ("spacing, origin and position".to_owned(), *rank, dims_of);
        }
        if adopt(&mut all.species, &said.species) {
            differ("the constants of the species".to_owned(), *rank, dims_of);
        }
    }
    all
}

/// Takes what is said where nothing was; whether something else was.
fn adopt<T: Clone + PartialEq>(known: &mut Option<T>, said: &Option<T>) -> bool {
    if known.is_none() {
        known.clone_from(said);
    }
    said.is_some() && known != said
}
