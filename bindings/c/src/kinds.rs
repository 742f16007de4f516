//! The kinds of handles, and the objects behind them.

use std::ffi::c_int;

/// Element type; the header writes it as an enumeration. Any number may come, so it is one here.
pub type fb_dtype = c_int;
/// Order of elements; likewise.
pub type fb_order = c_int;
/// Level of a message; likewise.
pub type fb_level = c_int;

/// A kind of handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    Run = 1,
    Snapshot = 2,
    Table = 3,
    Rows = 4,
    Diagram = 5,
    Client = 6,
    Future = 7,
    Server = 8,
    Ref = 9,
    Bag = 10,
    Group = 11,
}

/// A type of C whose pointers are handles.
pub trait Opaque {
    /// What is behind them; any thread may use it.
    type Object: Send + Sync;
    /// Their kind.
    const KIND: Kind;
    /// Their name, for errors.
    const NAME: &'static str;
}

/// The name of the kind of that number.
pub fn name_of(kind: u64) -> Option<&'static str> {
    NAMES.iter().find(|(k, _)| *k as u64 == kind).map(|(_, name)| *name)
}

macro_rules! opaque {
    ($($name:ident = $kind:ident: $object:ty;)*) => {
        const NAMES: &[(Kind, &str)] = &[$((Kind::$kind, stringify!($name)),)*];

        $(impl Opaque for $name {
            type Object = $object;
            const KIND: Kind = Kind::$kind;
            const NAME: &'static str = stringify!($name);
        })*
    };
}

opaque! {
    fb_run = Run: crate::run::RunObject;
    fb_snapshot = Snapshot: crate::snapshot::SnapshotObject;
    fb_table = Table: crate::tables::TableObject;
    fb_rows = Rows: crate::rows::RowsObject;
    fb_diagram = Diagram: forebay::Diagram;
    fb_client = Client: forebay::call::Client;
    fb_future = Future: std::sync::Arc<crate::futures::FutureObject>;
    fb_server = Server: crate::server::ServerObject;
    fb_ref = Ref: std::sync::Arc<forebay::Reference>;
    fb_bag = Bag: crate::bag::BagObject;
    fb_group = Group: crate::group::GroupObject;
}

/// An open run.
pub struct fb_run {
    _never: (),
}

/// A snapshot: one being taken, or a complete one that is read.
pub struct fb_snapshot {
    _never: (),
}

/// A relational table of a run.
pub struct fb_table {
    _never: (),
}

/// Rows that a query gave.
pub struct fb_rows {
    _never: (),
}

/// A diagram of a run.
pub struct fb_diagram {
    _never: (),
}

/// A client of the services that a broker knows.
pub struct fb_client {
    _never: (),
}

/// A call under way.
pub struct fb_future {
    _never: (),
}

/// Many calls of one service.
pub struct fb_bag {
    _never: (),
}

/// Calls that run at the same time.
pub struct fb_group {
    _never: (),
}

/// An array that a server holds for a client.
pub struct fb_ref {
    _never: (),
}

/// A server of services.
pub struct fb_server {
    _never: (),
}

/// A call as the service function sees it; good until the function returns, in its thread.
pub struct fb_request {
    _never: (),
}
