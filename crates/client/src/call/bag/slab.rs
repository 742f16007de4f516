//! What is known of the tasks of a bag, by their numbers. Numbers come one after the other, so the place of a task is
//! computed and nothing is hashed; what goes makes room by pages, so one task that stays keeps a page and no more.

use std::collections::VecDeque;

/// Tasks of a page.
const PAGE: u64 = 64;

/// Entries by the numbers of tasks.
#[derive(Debug)]
pub(super) struct Slab<T> {
    /// None where no task of a page is there.
    pages: VecDeque<Option<Page<T>>>,
    /// The number of the first page.
    first: u64,
    len: usize,
    /// An empty page, for the next one.
    spare: Vec<Option<T>>,
}

#[derive(Debug)]
struct Page<T> {
    at: Vec<Option<T>>,
    used: usize,
}

impl<T> Default for Slab<T> {
    fn default() -> Slab<T> {
        Slab { pages: VecDeque::new(), first: 0, len: 0, spare: Vec::new() }
    }
}

impl<T> Slab<T> {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    fn page(&self, number: u64) -> Option<usize> {
        Some((number / PAGE).checked_sub(self.first)? as usize)
    }

    #[inline]
    pub fn get(&self, number: u64) -> Option<&T> {
        self.pages.get(self.page(number)?)?.as_ref()?.at.get((number % PAGE) as usize)?.as_ref()
    }

    #[inline]
    pub fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        let page = self.page(number)?;
        self.pages.get_mut(page)?.as_mut()?.at.get_mut((number % PAGE) as usize)?.as_mut()
    }

    /// Puts an entry in the place of that number.
    pub fn insert(&mut self, number: u64, entry: T) {
        if self.pages.is_empty() {
            self.first = number / PAGE;
        }
        while number / PAGE < self.first {
            self.pages.push_front(None);
            self.first -= 1;
        }
        let page = (number / PAGE - self.first) as usize;
        while self.pages.len() <= page {
            self.pages.push_back(None);
        }
        let spare = &mut self.spare;
        let page = self.pages[page].get_or_insert_with(|| {
            let mut at = std::mem::take(spare);
            at.reserve_exact(PAGE as usize);
            Page { at, used: 0 }
        });
        let at = (number % PAGE) as usize;
        while page.at.len() <= at {
            page.at.push(None);
        }
        if page.at[at].replace(entry).is_none() {
            page.used += 1;
            self.len += 1;
        }
    }

    pub fn remove(&mut self, number: u64) -> Option<T> {
        let index = self.page(number)?;
        let page = self.pages.get_mut(index)?.as_mut()?;
        let entry = page.at.get_mut((number % PAGE) as usize)?.take()?;
        page.used -= 1;
        self.len -= 1;
        if page.used == 0 {
            let mut at = self.pages[index].take().map(|page| page.at).unwrap_or_default();
            at.clear();
            self.spare = at;
            while let Some(None) = self.pages.front() {
                self.pages.pop_front();
                self.first += 1;
            }
            while let Some(None) = self.pages.back() {
                self.pages.pop_back();
            }
        }
        Some(entry)
    }

    /// All of them, in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        let pages = (self.first..).zip(&self.pages);
        pages.flat_map(|(page, at)| {
            let entries = at.iter().flat_map(|page| &page.at);
            (page * PAGE..).zip(entries).filter_map(|(number, entry)| Some((number, entry.as_ref()?)))
        })
    }

    /// What is in it.
    pub fn into_entries(self) -> impl Iterator<Item = T> {
        self.pages.into_iter().flatten().flat_map(|page| page.at).flatten()
    }

    /// All of them, to change them.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u64, &mut T)> {
        let pages = (self.first..).zip(&mut self.pages);
        pages.flat_map(|(page, at)| {
            let entries = at.iter_mut().flat_map(|page| &mut page.at);
            (page * PAGE..).zip(entries).filter_map(|(number, entry)| Some((number, entry.as_mut()?)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_found_by_their_numbers_whatever_comes_and_goes_in_between() {
        let (mut slab, mut dice) = (Slab::default(), 1u64);
        let mut there = std::collections::BTreeMap::new();
        for number in 0..20_000u64 {
            slab.insert(number, number);
            there.insert(number, number);
            // One goes, one comes back changed.
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let other = number.saturating_sub((dice >> 33) % 500);
            assert_eq!(slab.remove(other), there.remove(&other));
            let changed = number.saturating_sub((dice >> 20) % 700);
            if (dice >> 50).is_multiple_of(2) {
                slab.insert(changed, dice);
                there.insert(changed, dice);
            }
            assert_eq!(slab.get(changed), there.get(&changed));
        }
        assert_eq!((slab.len(), slab.is_empty()), (there.len(), false));
        assert!(slab.iter().eq(there.iter().map(|(number, entry)| (*number, entry))));
        for (number, entry) in slab.iter_mut() {
            *entry = number;
        }
        assert!(there.keys().all(|number| slab.remove(*number) == Some(*number)));
        assert!(slab.is_empty() && slab.pages.is_empty() && slab.get(7).is_none());
    }

    #[test]
    fn a_task_that_stays_keeps_one_page_however_many_come_and_go_behind_it() {
        let mut slab = Slab::default();
        slab.insert(3, ());
        for number in 4..100_000 {
            slab.insert(number, ());
            slab.remove(number);
        }
        assert_eq!(slab.pages.iter().flatten().count(), 1);
        assert!(slab.pages.len() <= 2, "{}", slab.pages.len());
    }
}
