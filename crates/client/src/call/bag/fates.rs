//! What became of each of many tasks, two bits a task: tasks that all ended alike take a byte for 4,096.

/// Tasks of a chunk.
const CHUNK: usize = 4_096;

/// How a task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskFate {
    /// It has results.
    Done = 1,
    /// It has an error.
    Failed = 2,
    /// It was given up before it had either.
    Cancelled = 3,
}

impl TaskFate {
    fn of(bits: u8) -> Option<TaskFate> {
        [None, Some(TaskFate::Done), Some(TaskFate::Failed), Some(TaskFate::Cancelled)][usize::from(bits & 3)]
    }
}

enum Chunk {
    /// All of them.
    Alike(u8),
    /// Four in a byte, and how many have ended.
    Mixed(Box<[u8; CHUNK / 4]>, usize),
}

/// The fates of tasks by index.
#[derive(Default)]
pub(super) struct Fates {
    chunks: Vec<Chunk>,
}

impl Fates {
    pub fn get(&self, index: u64) -> Option<TaskFate> {
        let index = usize::try_from(index).ok()?;
        match self.chunks.get(index / CHUNK)? {
            Chunk::Alike(bits) => TaskFate::of(*bits),
            Chunk::Mixed(bytes, _) => {
                let at = index % CHUNK;
                TaskFate::of(bytes[at / 4] >> (2 * (at % 4)))
            }
        }
    }

    /// Once a task.
    pub fn set(&mut self, index: u64, fate: TaskFate) {
        let (chunk, at) = (index as usize / CHUNK, index as usize % CHUNK);
        while self.chunks.len() <= chunk {
            self.chunks.push(Chunk::Mixed(Box::new([0; CHUNK / 4]), 0));
        }
        let Chunk::Mixed(bytes, ended) = &mut self.chunks[chunk] else { return };
        bytes[at / 4] |= (fate as u8) << (2 * (at % 4));
        *ended += 1;
        let first = bytes[0] & 3;
        if *ended == CHUNK && bytes.iter().all(|byte| *byte == first * 0b0101_0101) {
            self.chunks[chunk] = Chunk::Alike(first);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_has_the_fate_it_was_given_and_tasks_that_ended_alike_take_a_byte() {
        let mut fates = Fates::default();
        let of = |n: u64| match n {
            10_001 => TaskFate::Failed,
            10_002 => TaskFate::Cancelled,
            _ => TaskFate::Done,
        };
        for n in (0..20_000).rev() {
            assert_eq!(fates.get(n), None);
            fates.set(n, of(n));
        }
        assert!((0..20_000).all(|n| fates.get(n) == Some(of(n))));
        assert_eq!(fates.get(30_000), None);
        let alike = fates.chunks.iter().filter(|c| matches!(c, Chunk::Alike(_))).count();
        assert_eq!((alike, fates.chunks.len()), (3, 5));
    }
}
