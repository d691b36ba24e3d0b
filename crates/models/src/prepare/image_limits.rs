//! What a provider takes of images in one request, and what is left out so that they fit.
//!
//! The newest images stay: they are what is talked about. Old ones go several at a time, since each change of what was sent before costs
//! the provider's prompt cache. Not here: what is wrong with a single image.

use super::image_size::longer_side;
use super::{Part, Turn};

/// How many more than needed are left out, so that the next few images change nothing.
const AT_ONCE: usize = 20;

/// Note for an image that is left out for others.
const TOO_MANY: &str = "(image omitted: there are newer ones, and the provider takes only so many)";

/// Limits of a provider. Sides are in pixels, lengths in characters of base64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ImageLimits {
    /// Of one image.
    pub(crate) max_length: usize,
    /// Of one image.
    pub(crate) max_side: u32,
    /// Of all images together.
    pub(crate) max_total: usize,
    pub(crate) max_count: usize,
    /// With more images than the first, none may have a longer side than the second.
    pub(crate) many: (usize, u32),
}

impl ImageLimits {
    pub(crate) const NONE: Self =
        Self { max_length: usize::MAX, max_side: u32::MAX, max_total: usize::MAX, max_count: usize::MAX, many: (usize::MAX, u32::MAX) };
}

/// Puts notes in the place of images until the rest fits together.
pub(crate) fn fit(turns: &mut [Turn<'_>], limits: &ImageLimits) {
    let lengths: Vec<usize> = images(turns).map(|(_, data)| data.len()).collect();
    let excess = lengths.len().saturating_sub(limits.max_count);
    let mut dropped = excess.next_multiple_of(AT_ONCE).min(lengths.len());
    let mut total: usize = lengths.iter().skip(dropped).sum();
    while total > limits.max_total && dropped < lengths.len() {
        let until = (dropped + AT_ONCE).min(lengths.len().saturating_sub(1)).max(dropped + 1);
        total -= lengths[dropped..until].iter().sum::<usize>();
        dropped = until;
    }
    let (many, side) = limits.many;
    let are_many = lengths.len() - dropped > many;
    if dropped == 0 && !are_many {
        return;
    }
    for (number, (part, data)) in images_mut(turns).enumerate() {
        if number < dropped {
            *part = Part::Text(TOO_MANY.into());
        } else if are_many && longer_side(data).is_some_and(|longer| longer > side) {
            *part = Part::Text(format!("(image omitted: with more than {many} images the provider takes none above {side} pixels)").into());
        }
    }
    for turn in turns {
        if let Turn::User(parts) | Turn::Result { parts, .. } = turn {
            // A run of notes says no more than one.
            parts.dedup_by(|one, other| matches!(one, Part::Text(text) if text == TOO_MANY) && one == other);
        }
    }
}

fn images<'t, 'a>(turns: &'t [Turn<'a>]) -> impl Iterator<Item = (&'t Part<'a>, &'a str)> {
    let parts = turns.iter().flat_map(|turn| match turn {
        Turn::User(parts) | Turn::Result { parts, .. } => parts.as_slice(),
        Turn::Assistant(_) => &[],
    });
    parts.filter_map(|part| match part {
        Part::Image { data, .. } => Some((part, *data)),
        Part::Text(_) => None,
    })
}

fn images_mut<'t, 'a>(turns: &'t mut [Turn<'a>]) -> impl Iterator<Item = (&'t mut Part<'a>, &'a str)> {
    let parts = turns.iter_mut().flat_map(|turn| match turn {
        Turn::User(parts) | Turn::Result { parts, .. } => parts.as_mut_slice(),
        Turn::Assistant(_) => &mut [],
    });
    parts.filter_map(|part| match part {
        Part::Image { data, .. } => {
            let data = *data;
            Some((part, data))
        }
        Part::Text(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use super::{ImageLimits, fit};
    use crate::prepare::{Part, Turn};

    fn png(side: u32) -> String {
        STANDARD.encode([&b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR"[..], &side.to_be_bytes(), &[0; 12]].concat())
    }

    /// Which of the images are left after turns of so many images each.
    fn left(sides: &[u32], in_turn: usize, limits: ImageLimits) -> Vec<usize> {
        let data: Vec<String> = sides.iter().map(|side| png(*side)).collect();
        let image = |data| Part::Image { mime_type: "image/png", data };
        let mut turns: Vec<Turn<'_>> =
            data.chunks(in_turn).map(|some| Turn::User(some.iter().map(|data| image(data.as_str())).collect())).collect();
        fit(&mut turns, &limits);
        assert!(turns.iter().all(|turn| matches!(turn, Turn::User(parts) if !parts.is_empty())));
        let is_left = |data: &String| {
            turns.iter().any(|turn| matches!(turn, Turn::User(parts) if parts.iter().any(|part| matches!(part, Part::Image { data: found, .. } if std::ptr::eq(*found, data.as_str())))))
        };
        (0..data.len()).filter(|number| is_left(&data[*number])).collect()
    }

    #[test]
    fn the_newest_images_stay() {
        let length = png(1).len();
        let count = |max_count| ImageLimits { max_count, ..ImageLimits::NONE };
        let total = |images: usize| ImageLimits { max_total: images * length, ..ImageLimits::NONE };
        let many = ImageLimits { many: (3, 2000), ..ImageLimits::NONE };
        for (sides, limits, expected) in [
            (vec![1; 100], count(100), (0..100).collect::<Vec<_>>()),
            (vec![1; 101], count(100), (20..101).collect()),
            (vec![1; 120], count(100), (20..120).collect()),
            (vec![1; 121], count(100), (40..121).collect()),
            (vec![1; 5], count(4), vec![]),
            (vec![1; 50], total(50), (0..50).collect()),
            (vec![1; 50], total(49), (20..50).collect()),
            (vec![1; 50], total(9), vec![49]),
            (vec![1; 50], total(0), vec![]),
            (vec![9000, 1, 1], many, vec![0, 1, 2]),
            (vec![2001, 1, 2000, 1], many, vec![1, 2, 3]),
            (vec![], count(0), vec![]),
        ] {
            for in_turn in [1, 7, 200] {
                assert_eq!(left(&sides, in_turn, limits), expected, "{} images, {limits:?}", sides.len());
            }
        }
    }
}
