//! The store's own buffer: segments a rank may fill when its own arena has no room, up to the
//! limit that was declared when the run was opened.

use super::intake::Intake;
use super::session::overflow_name;
use forebay_arena::{Segment, SegmentSpec};
use serde_json::Value;

/// Kind of overflow segments, in their headers.
pub const OVERFLOW_KIND: u32 = 0x4f56;
/// Smaller segments are not worth their pages.
const LEAST: u64 = 16 << 20;
const BLOCKS: u32 = 1024;

impl Intake {
    /// A segment for a session: its path, or null when the limit or the memory is used up.
    pub(super) fn overflow(&mut self, session: u64, bytes: u64) -> Value {
        let left = self.overflow_limit.saturating_sub(self.figures.overflow);
        let size = bytes.next_multiple_of(4096).max(LEAST).min(left);
        let Some(s) = self.sessions.get_mut(&session) else { return Value::Null };
        if size < LEAST.min(bytes) || size == 0 {
            return Value::Null;
        }
        let spec = SegmentSpec {
            name: overflow_name(&self.run_id, session, s.overflow.len() + 1),
            kind: OVERFLOW_KIND,
            up_bytes: 4096,
            down_bytes: 4096,
            block_bytes: size,
            blocks: BLOCKS,
        };
        let Ok(segment) = Segment::create(&spec) else { return Value::Null };
        let Some(path) = segment.path().map(|p| p.to_string_lossy().into_owned()) else { return Value::Null };
        s.overflow.push(segment);
        self.figures.overflow += size;
        self.figures.overflow_high = self.figures.overflow_high.max(self.figures.overflow);
        Value::String(path)
    }
}
