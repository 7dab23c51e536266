//! The places of the large parts of an object.

use std::ops::Range;

use smallvec::SmallVec;

/// The places of the parts on the first levels of an object. They are recorded while its end is
/// searched, so that a reader can skip them without reading them again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Outline {
    /// The beginning and end of each part, in the order of the beginnings. Most objects have few
    /// parts and need no allocation, which another thread would have to free.
    parts: SmallVec<[(u32, u32); PARTS]>,
    /// The parts that have begun and not ended, by level.
    open: [Option<u32>; EVENT_LEVELS],
    /// Whether the object is nested too deep to be read.
    pub(crate) too_deep: bool,
    /// Whether the whole object is known to be ASCII.
    pub(crate) is_ascii: bool,
}

/// How many levels of an object are recorded: its members, and their members.
pub(crate) const LEVELS: usize = 2;
/// The same for an event, in which the object is a member.
pub(crate) const EVENT_LEVELS: usize = LEVELS + 1;
/// Reading a smaller part again is as fast as looking it up.
const SMALL: u32 = 128;
/// Few objects have more large parts.
const PARTS: usize = 14;
/// The end of a part that has not ended, or is beyond `u32`.
const UNKNOWN: u32 = u32::MAX;

impl Outline {
    /// Records the beginning of a part. The first level is 0.
    pub(crate) fn begin(&mut self, level: usize, place: usize) {
        let Ok(place) = u32::try_from(place) else { return };
        self.open[level] = Some(self.parts.len() as u32);
        self.parts.push((place, UNKNOWN));
    }

    /// Records the end of the last part that began on that level.
    pub(crate) fn end(&mut self, level: usize, place: usize) {
        let Some(part) = self.open[level].take().map(|part| part as usize) else { return };
        let end = u32::try_from(place).unwrap_or(UNKNOWN);
        if part + 1 == self.parts.len() && end - self.parts[part].0 < SMALL {
            self.parts.pop();
        } else {
            self.parts[part].1 = end;
        }
    }

    /// The outline of the part at `place`.
    pub(crate) fn into_part(mut self, place: &Range<usize>) -> Self {
        let Ok(offset) = u32::try_from(place.start) else { return Self { parts: SmallVec::new(), ..self } };
        self.parts.retain(|(start, end)| {
            let is_within = offset < *start && (*start as usize) < place.end && *end != UNKNOWN;
            if is_within {
                (*start, *end) = (*start - offset, *end - offset);
            }
            is_within
        });
        Self { open: [None; EVENT_LEVELS], ..self }
    }

    /// The end of the part that begins at `place`, if it is known.
    #[inline]
    pub(crate) fn end_of(&self, place: usize) -> Option<usize> {
        let place = u32::try_from(place).ok()?;
        let part = self.parts.binary_search_by_key(&place, |(start, _)| *start).ok()?;
        Some(self.parts[part].1).filter(|end| *end != UNKNOWN).map(|end| end as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_far_away_is_not_known() {
        let far = u32::MAX as usize;
        let mut outline = Outline::default();
        for (start, end) in [(10, 1_000), (2_000, far + 5), (far + 10, far + 1_000)] {
            outline.begin(0, start);
            outline.end(0, end);
        }
        assert_eq!([10, 2_000, far + 10].map(|place| outline.end_of(place)), [Some(1_000), None, None]);
        let part = outline.clone().into_part(&(5..far));
        assert_eq!([5, 1_995].map(|place| part.end_of(place)), [Some(995), None]);
        assert_eq!(outline.into_part(&(far + 5..far + 2_000)).end_of(5), None);
    }
}
