//! Who looks at a run, at what, and what each has been told already.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use forebay_types::{Code, Error, Result, limits};
use tokio::sync::watch;

use crate::reduce::Window;
use crate::say::View;
use crate::secret::Secret;
use crate::token::Role;

/// Most viewers and most operators of one run at a time: the ones take no place from the others.
pub const VIEWERS: usize = 64;
pub const OPERATORS: usize = 16;
/// Most columns of pixels that a curve is reduced to.
pub const COLUMNS: u32 = 4096;
/// Longest name of a person, in characters.
const NAME_CHARS: usize = 32;

/// Marks of what a viewer has been told.
#[derive(Debug, Default)]
pub struct Seen {
    pub catalogue: u64,
    pub parameters: u64,
    pub message: u64,
    pub log: u64,
    pub state: u64,
    /// The word of the state changed: say it now.
    pub state_due: bool,
}

/// What one viewer has in sight.
#[derive(Clone, Debug, Default)]
pub struct Sight {
    /// Diagram to window, with a number that changes with the window.
    pub open: BTreeMap<u32, (Window, u64)>,
    /// Nobody can see the page.
    pub hidden: bool,
}

struct Viewer {
    name: String,
    role: Role,
    /// What a page shows at its data socket; scripts show their token.
    key: Option<Secret>,
    has_data: bool,
    sight: watch::Sender<Sight>,
}

/// All viewers of one run.
#[derive(Default)]
pub struct Viewers {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    next: u64,
    all: BTreeMap<u64, Viewer>,
}

impl Viewers {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody came. Returns its number and its name.
    pub fn enter(&self, role: Role, key: Option<Secret>) -> Result<(u64, String)> {
        let mut inner = self.inner();
        let (most, what) = if role == Role::Operator { (OPERATORS, "steer") } else { (VIEWERS, "watch") };
        if inner.all.values().filter(|v| v.role == role).count() >= most {
            return Err(Error::new(
                Code::Full,
                format!("{most} people {what} already; close another page first"),
            ));
        }
        inner.next += 1;
        let id = inner.next;
        let name = format!("{} {id}", role.word());
        let sight = watch::Sender::new(Sight::default());
        inner.all.insert(id, Viewer { name: name.clone(), role, key, has_data: false, sight });
        Ok((id, name))
    }

    /// It went.
    pub fn leave(&self, id: u64) {
        self.inner().all.remove(&id);
    }

    /// Its data socket came; a viewer has one. A page shows a proof, a script its role. The receiver is
    /// closed when the viewer leaves.
    pub fn data(&self, id: u64, mac: Option<&str>, script: Option<Role>) -> Option<watch::Receiver<Sight>> {
        let mut inner = self.inner();
        let viewer = inner.all.get_mut(&id)?;
        let is_its = match (&viewer.key, mac) {
            (Some(key), Some(mac)) => key.mac(&["D", &id.to_string()]).is(mac),
            (None, None) => script == Some(viewer.role),
            _ => false,
        };
        if !is_its {
            return None;
        }
        if std::mem::replace(&mut viewer.has_data, true) {
            return None;
        }
        Some(viewer.sight.subscribe())
    }

    /// What it has in sight now.
    pub fn look(&self, id: u64, views: &[View], hidden: bool) {
        let inner = self.inner();
        let Some(viewer) = inner.all.get(&id) else { return };
        viewer.sight.send_modify(|sight| {
            let mut open = BTreeMap::new();
            for v in views.iter().take(limits::DIAGRAMS) {
                let window = window(v);
                let mark = match sight.open.get(&v.diagram) {
                    Some((old, mark)) if *old == window => *mark,
                    Some((_, mark)) => mark + 1,
                    None => 0,
                };
                open.insert(v.diagram, (window, mark));
            }
            *sight = Sight { open, hidden };
        });
    }

    /// It wants to be called so. Returns the name it has now.
    pub fn rename(&self, id: u64, name: &str) -> Option<String> {
        let mut inner = self.inner();
        let viewer = inner.all.get_mut(&id)?;
        let clean: String = name.chars().filter(|c| !c.is_control()).take(NAME_CHARS).collect();
        let clean = clean.trim();
        if !clean.is_empty() {
            viewer.name = clean.to_owned();
        }
        Some(viewer.name.clone())
    }

    /// Diagrams that somebody can see.
    pub fn open(&self) -> BTreeSet<u32> {
        let inner = self.inner();
        let mut open = BTreeSet::new();
        for viewer in inner.all.values() {
            let sight = viewer.sight.borrow();
            if !sight.hidden {
                open.extend(sight.open.keys());
            }
        }
        open
    }

    /// Names and roles.
    pub fn names(&self) -> Vec<(String, Role)> {
        self.inner().all.values().map(|v| (v.name.clone(), v.role)).collect()
    }

    /// How many.
    pub fn count(&self) -> usize {
        self.inner().all.len()
    }
}

/// Columns go in steps of 64, so that viewers with like windows share one encoding.
fn window(v: &View) -> Window {
    let range = v.range.filter(|(a, b)| a.is_finite() && b.is_finite() && a < b);
    Window { columns: v.columns.clamp(64, COLUMNS).next_multiple_of(64), range, log: v.log }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(diagram: u32, columns: u32) -> View {
        View { diagram, columns, range: None, log: false }
    }

    #[test]
    fn a_viewer_has_one_data_socket_and_its_key_opens_it() {
        let viewers = Viewers::default();
        let key = Secret::generate().unwrap();
        let (id, _) = viewers.enter(Role::Viewer, Some(key.clone())).unwrap();
        let mac = key.mac(&["D", &id.to_string()]).text();
        assert!(viewers.data(id, Some("guess"), None).is_none());
        assert!(viewers.data(id, None, Some(Role::Viewer)).is_none());
        assert!(viewers.data(id + 1, Some(&mac), None).is_none());
        let sight = viewers.data(id, Some(&mac), None).unwrap();
        assert!(viewers.data(id, Some(&mac), None).is_none());
        viewers.leave(id);
        assert!(sight.has_changed().is_err());
    }

    #[test]
    fn only_what_can_be_seen_is_open() {
        let viewers = Viewers::default();
        let (a, _) = viewers.enter(Role::Viewer, None).unwrap();
        let (b, _) = viewers.enter(Role::Operator, None).unwrap();
        viewers.look(a, &[view(0, 500), view(2, 500)], false);
        viewers.look(b, &[view(1, 500)], true);
        assert_eq!(viewers.open(), BTreeSet::from([0, 2]));
        viewers.leave(a);
        assert_eq!(viewers.open(), BTreeSet::new());
    }

    #[test]
    fn a_changed_window_changes_its_mark_and_an_equal_one_does_not() {
        let viewers = Viewers::default();
        let (id, _) = viewers.enter(Role::Viewer, None).unwrap();
        assert!(viewers.data(id, None, Some(Role::Operator)).is_none(), "the token of another role");
        let sight = viewers.data(id, None, Some(Role::Viewer)).unwrap();
        let mark = || sight.borrow().open[&0].1;
        viewers.look(id, &[view(0, 500)], false);
        let first = mark();
        viewers.look(id, &[view(0, 510)], false);
        assert_eq!(mark(), first, "the same 64 columns");
        viewers.look(id, &[View { range: Some((0.0, 1.0)), ..view(0, 500) }], false);
        assert_ne!(mark(), first);
        viewers.look(id, &[View { range: Some((f64::NAN, 1.0)), ..view(0, u32::MAX) }], false);
        assert_eq!(sight.borrow().open[&0].0, Window { columns: COLUMNS, range: None, log: false });
    }

    #[test]
    fn one_viewer_too_many_is_told_so_and_keeps_no_operator_out() {
        let viewers = Viewers::default();
        for _ in 0..VIEWERS {
            viewers.enter(Role::Viewer, None).unwrap();
        }
        assert_eq!(viewers.enter(Role::Viewer, None).unwrap_err().code(), Code::Full);
        viewers.enter(Role::Operator, None).unwrap();
    }

    #[test]
    fn names_are_short_and_printable() {
        let viewers = Viewers::default();
        let (id, given) = viewers.enter(Role::Operator, None).unwrap();
        assert_eq!(viewers.rename(id, " \n ").unwrap(), given);
        assert_eq!(viewers.rename(id, "tr\u{7}an").unwrap(), "tran");
        assert_eq!(viewers.rename(id, &"é".repeat(100)).unwrap().chars().count(), NAME_CHARS);
    }
}
