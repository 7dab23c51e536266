//! Where the large parts of an object are.

use std::ops::Range;

/// Where the parts of an object's first levels begin and end, noted while its own end was looked for, so that they can be passed
/// over without reading them again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Outline {
    /// Beginning and end of each part, in the order of their beginnings.
    parts: Vec<(usize, usize)>,
    /// The parts that have begun and not ended, by their level.
    open: [Option<usize>; EVENT_LEVELS],
    /// Whether the object is nested too deep to be read.
    pub(crate) too_deep: bool,
}

/// How many levels are noted of an object: its members, and members of those.
pub(crate) const LEVELS: usize = 2;
/// The same of an event, of which the object is a member.
pub(crate) const EVENT_LEVELS: usize = LEVELS + 1;
/// Smaller parts are read again as quickly as they are looked up.
const SMALL: usize = 128;
/// Few objects have more large parts.
const PARTS: usize = 16;

impl Outline {
    /// A part begins; the first level is 0.
    pub(crate) fn begin(&mut self, level: usize, place: usize) {
        if self.parts.capacity() == 0 {
            self.parts.reserve(PARTS);
        }
        self.open[level] = Some(self.parts.len());
        self.parts.push((place, usize::MAX));
    }

    /// The part of that level that has begun last ends.
    pub(crate) fn end(&mut self, level: usize, place: usize) {
        let Some(part) = self.open[level].take() else { return };
        if part + 1 == self.parts.len() && place - self.parts[part].0 < SMALL {
            self.parts.pop();
        } else {
            self.parts[part].1 = place;
        }
    }

    /// What is known of the part that lies there.
    pub(crate) fn into_part(mut self, place: &Range<usize>) -> Self {
        self.parts.retain_mut(|(start, end)| {
            let is_within = place.start < *start && *start < place.end;
            if is_within {
                (*start, *end) = (*start - place.start, end.saturating_sub(place.start));
            }
            is_within
        });
        Self { open: [None; EVENT_LEVELS], ..self }
    }

    /// The end of the part that begins there, if it is known.
    #[inline]
    pub(crate) fn end_of(&self, place: usize) -> Option<usize> {
        let part = self.parts.binary_search_by_key(&place, |(start, _)| *start).ok()?;
        Some(self.parts[part].1)
    }
}
