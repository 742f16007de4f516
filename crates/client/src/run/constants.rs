//! Constants of the run: arrays that are put once, and that every snapshot has. A small one is copied into each; of a larger
//! one each says where it lies.

use std::sync::{Arc, PoisonError};

use forebay_types::control::Ask;
use forebay_types::record::{Place, Record};
use forebay_types::{ArrayMeta, Code, Description, Elsewhere, Error, Name, Result};

use super::View;
use super::axes::check_unit;
use super::core::Core;
use super::session::{PutOptions, Session};
use super::step::check_free;

/// Constants of up to so many bytes are copied into each snapshot.
pub const COPIED: usize = 4096;

/// What goes with a constant of the run.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConstantOptions<'a> {
    /// Unit, or empty.
    pub units: &'a str,
    /// Names of its axes, and attributes.
    pub description: Option<&'a Description>,
    /// From which step on it holds, where it takes the place of an earlier one; 0: from the beginning.
    pub step: i64,
}

/// A constant, as the next snapshots have it.
pub(super) struct Constant {
    pub name: String,
    from: i64,
    pub units: String,
    meta: ArrayMeta,
    bytes: Vec<u8>,
    sum: u32,
    /// What each snapshot says of it.
    json: Option<String>,
}

impl Constant {
    /// Its bytes for a snapshot, if it is small, and their place.
    pub fn copy(&self) -> Result<Option<(View<'_>, Place)>> {
        match self.meta.bytes()? == self.bytes.len() as u64 {
            true => Ok(Some((View::new(self.meta, &self.bytes)?, Place::Alike { sum: self.sum }))),
            false => Ok(None),
        }
    }

    /// The record that says what it is.
    pub fn says(&self, step: i64) -> Option<Record<'_>> {
        self.json.as_deref().map(|json| Record::StepDescribe { step, name: &self.name, json })
    }
}

impl Core {
    /// The constants of a snapshot, by name: of each the version that holds there.
    pub(super) fn constants_at(&self, step: i64) -> Vec<Arc<Constant>> {
        let all = self.constants.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found: Vec<Arc<Constant>> = Vec::new();
        for one in all.iter().filter(|c| c.from == 0 || c.from <= step) {
            match found.iter_mut().find(|c| c.name == one.name) {
                Some(known) if known.from < one.from => *known = one.clone(),
                Some(_) => {}
                None => found.push(one.clone()),
            }
        }
        found
    }

    /// Refuses an array where a constant is, or a group.
    pub(super) fn beside_constants(&self, name: &str) -> Result<()> {
        let all = self.constants.lock().unwrap_or_else(PoisonError::into_inner);
        match all.iter().find(|c| meets(&c.name, name)) {
            None => Ok(()),
            Some(constant) => Err(Error::bad(format!(
                "{:?} is a constant of the run, and every snapshot has it: {name:?} cannot be put beside it; rename one",
                constant.name
            ))),
        }
    }
}

/// Whether two arrays of a snapshot cannot be beside each other: they have one name, or one would be a group of the other.
fn meets(a: &str, b: &str) -> bool {
    let is_above =
        |group: &str, name: &str| name.strip_prefix(group).is_some_and(|rest| rest.starts_with('/'));
    a == b || is_above(a, b) || is_above(b, a)
}

impl Session {
    /// Whether an array may be a constant of the run.
    pub fn check_constant(&self, name: &str, view: &View, o: &ConstantOptions) -> Result<()> {
        self.core().ranks_alone("a constant")?;
        Name::new(name)?;
        check_unit(o.units)?;
        check_free(name)?;
        if view.original().is_some() {
            return Err(Error::bad(format!("the constant {name:?} is kept as it is; convert it before")));
        }
        if o.step < 0 {
            return Err(Error::bad(format!(
                "step = {} of the constant {name:?}: give the step from which on it takes the place of an earlier one, 1 or more",
                o.step
            )));
        }
        if let Some(open) = &*self.core().open_step() {
            return Err(Error::new(
                Code::Conflict,
                format!("the constant {name:?} comes while snapshot {} is taken; say it before", open.step),
            ));
        }
        let all = self.core().constants.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(other) = all.iter().find(|c| c.name != name && meets(&c.name, name)) {
            return Err(Error::bad(format!(
                "{name:?} cannot be a constant of the run beside {:?}: one of them would be an array and a group; rename one",
                other.name
            )));
        }
        o.description.map_or(Ok(()), |d| d.check(name, view.meta()))
    }

    /// Stores the bytes of a constant, if there are none yet.
    pub fn put_once(&self, name: &str, view: View, o: &ConstantOptions) -> Result<()> {
        let attrs = o.description.map(|d| &d.attrs).filter(|attrs| !attrs.is_empty());
        self.put_new(name, view, PutOptions { set: o.step, units: o.units, attrs }, COPIED)
    }

    /// Whether snapshots have the version of a constant from that step on.
    pub fn bears(&self, name: &str, step: i64) -> bool {
        let all = self.core().constants.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().any(|c| (c.name.as_str(), c.from) == (name, step))
    }

    /// Every snapshot from now on has it. Its bytes have that checksum, and lie there if they are not in the catalog.
    pub fn bear(
        &self,
        name: &str,
        view: View,
        o: &ConstantOptions,
        sum: u32,
        file: Option<(String, u64)>,
    ) -> Result<()> {
        let (meta, units) = (*view.meta(), o.units.to_owned());
        let mut description = o.description.cloned().unwrap_or_default();
        let bytes = match file {
            None => view.bytes().into_owned(),
            Some((file, offset)) => {
                // Whoever removes the data set from here on leaves the bytes.
                let () = self.core().ask(&Ask::Refer { file: file.clone() })?;
                let units = units.clone();
                description.constant = Some(Box::new(Elsewhere { file, offset, crc32c: sum, meta, units }));
                Vec::new()
            }
        };
        let json = if description.is_empty() { None } else { Some(description.to_json()?) };
        let new = Constant { name: name.to_owned(), from: o.step, units, meta, bytes, sum, json };
        let mut all = self.core().constants.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|c| (c.name.as_str(), c.from) != (name, o.step));
        all.push(Arc::new(new));
        Ok(())
    }
}
