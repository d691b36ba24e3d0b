//! Images for the model: recognised by content, checked by decoding, scaled down until every provider takes them.
//!
//! An image that cannot be decoded never enters the history: it would fail each further request. Decoding is bounded in size and memory, and one at a time.

use std::fs::File;
use std::io::{self, Cursor, Read, Seek};
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use ::image::codecs::jpeg::JpegEncoder;
use ::image::codecs::png::PngEncoder;
use ::image::imageops::FilterType;
use ::image::{DynamicImage, ImageDecoder, ImageFormat, ImageReader, Limits};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use wolli_protocol::message::{ImageContent, UserBlock};

use super::blocking::{Abort, blocking};
use super::context::ToolOutput;
use super::failure::ToolFailure;

/// How much of a file is looked at to tell what it is.
const SNIFF_BYTES: usize = 4100;

/// The longest side that goes out: above it providers refuse conversations with many images.
const MAX_SIDE: u32 = 2000;

/// Base64 text of this length and more is too much: providers allow 5 MB.
const MAX_BASE64_BYTES: usize = 4_718_592;

/// Tried in this order, after PNG.
const JPEG_QUALITIES: [u8; 5] = [80, 85, 70, 55, 40];

/// How the sides shrink when no encoding was small enough.
const SHRINK: f64 = 0.75;

/// A bigger file is no picture for a model; it is not read into memory.
const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// A small file may unpack to gigabytes. Cameras make 50 megapixels, which are 200 MB here.
const MAX_PIXELS: u64 = 64_000_000;
const MAX_DECODER_BYTES: u64 = 256 * 1024 * 1024;

/// Decoding is the most memory that any tool takes: one at a time in the process.
static ONE_AT_A_TIME: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(1)));

const OMITTED: &str = "[Image omitted: could not be resized below the inline image size limit.]";

/// What the content says, whatever the name says; leaves the file at its beginning.
pub(super) fn sniff(mut file: &File) -> io::Result<Option<ImageFormat>> {
    let mut head = Vec::with_capacity(SNIFF_BYTES);
    file.take(SNIFF_BYTES as u64).read_to_end(&mut head)?;
    file.rewind()?;
    Ok(format_of(&head))
}

fn format_of(head: &[u8]) -> Option<ImageFormat> {
    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR";
    match head {
        // 0xf7 is JPEG-LS, which nobody decodes.
        [0xff, 0xd8, 0xff, kind, ..] if *kind != 0xf7 => Some(ImageFormat::Jpeg),
        _ if head.starts_with(PNG) && !is_animated_png(head) => Some(ImageFormat::Png),
        _ if head.starts_with(b"GIF87a") || head.starts_with(b"GIF89a") => Some(ImageFormat::Gif),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some(ImageFormat::WebP),
        _ => None,
    }
}

/// Whether an animation chunk comes before the image data.
fn is_animated_png(head: &[u8]) -> bool {
    let mut rest = head.get(8..).unwrap_or_default();
    while let [a, b, c, d, kind @ ..] = rest {
        let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
        match kind.get(..4) {
            Some(b"acTL") => return true,
            Some(b"IDAT") | None => return false,
            // Kind, data, checksum.
            Some(_) => rest = kind.get(length.saturating_add(8)..).unwrap_or_default(),
        }
    }
    false
}

/// Reads an image for the model. What cannot be shown is a text that says so.
pub(super) async fn read(path: PathBuf, format: ImageFormat, cancel: &CancellationToken) -> Result<ToolOutput, ToolFailure> {
    let permit = tokio::select! {
        biased;
        () = cancel.cancelled() => return Err(ToolFailure::Aborted),
        permit = Arc::clone(&ONE_AT_A_TIME).acquire_owned() => permit,
    };
    blocking(cancel, move |abort| {
        let _one = permit;
        let file = File::open(&path).map_err(|error| ToolFailure::file(&error, "access", &path))?;
        let length = file.metadata().map_or(0, |metadata| metadata.len());
        let mut bytes = Vec::new();
        if length <= MAX_FILE_BYTES {
            file.take(MAX_FILE_BYTES).read_to_end(&mut bytes).map_err(|error| ToolFailure::file(&error, "read", &path))?;
        }
        Ok(describe(&bytes, format, prepare(&bytes, format, abort)?))
    })
    .await
}

/// An image as it goes out.
#[derive(Debug, PartialEq)]
enum Shown {
    /// As it is in the file.
    Unchanged,
    Resized {
        bytes: Vec<u8>,
        format: ImageFormat,
        original: (u32, u32),
        displayed: (u32, u32),
    },
    Omitted,
}

fn describe(original: &[u8], format: ImageFormat, shown: Shown) -> ToolOutput {
    let (text, image) = match shown {
        Shown::Unchanged => (read_note(format), Some((original, format))),
        Shown::Omitted => (format!("{}\n{OMITTED}", read_note(format)), None),
        Shown::Resized { ref bytes, format, original: (width, height), displayed: (width_shown, height_shown) } => {
            let factor = f64::from(width) / f64::from(width_shown);
            let note = format!(
                "[Image: original {width}x{height}, displayed at {width_shown}x{height_shown}. Multiply coordinates by {factor:.2} to map to original image.]"
            );
            (format!("{}\n{note}", read_note(format)), Some((bytes.as_slice(), format)))
        }
    };
    let mut output = ToolOutput::text(text);
    output.content.extend(image.map(|(bytes, format)| {
        UserBlock::Image(ImageContent { data: STANDARD.encode(bytes), mime_type: format.to_mime_type().to_owned() })
    }));
    output
}

fn read_note(format: ImageFormat) -> String {
    format!("Read image file [{}]", format.to_mime_type())
}

fn prepare(bytes: &[u8], format: ImageFormat, abort: &Abort) -> Result<Shown, ToolFailure> {
    let Some(image) = decode(bytes, format) else { return Ok(Shown::Omitted) };
    abort.check()?;
    let original = (image.width(), image.height());
    if original.0 <= MAX_SIDE && original.1 <= MAX_SIDE && base64_length(bytes.len()) < MAX_BASE64_BYTES {
        return Ok(Shown::Unchanged);
    }
    let mut displayed = fit(original);
    loop {
        let scaled = (displayed != original).then(|| image.resize_exact(displayed.0, displayed.1, FilterType::Triangle));
        if let Some((bytes, format)) = encode(scaled.as_ref().unwrap_or(&image), abort)? {
            return Ok(Shown::Resized { bytes, format, original, displayed });
        }
        if displayed == (1, 1) {
            return Ok(Shown::Omitted);
        }
        displayed = (shrink(displayed.0), shrink(displayed.1));
    }
}

/// Decodes within the limits and turns the image upright.
fn decode(bytes: &[u8], format: ImageFormat) -> Option<DynamicImage> {
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
    let mut limits = Limits::default();
    limits.max_alloc = Some(MAX_DECODER_BYTES);
    reader.limits(limits);
    let mut decoder = reader.into_decoder().ok()?;
    let (width, height) = decoder.dimensions();
    if u64::from(width) * u64::from(height) > MAX_PIXELS || width == 0 || height == 0 || decoder.total_bytes() > MAX_DECODER_BYTES {
        return None;
    }
    let orientation = decoder.orientation().ok();
    let mut image = DynamicImage::from_decoder(decoder).ok()?;
    if let Some(orientation) = orientation {
        image.apply_orientation(orientation);
    }
    Some(image)
}

/// The first encoding that is small enough.
fn encode(image: &DynamicImage, abort: &Abort) -> Result<Option<(Vec<u8>, ImageFormat)>, ToolFailure> {
    let small_enough = |bytes: &Vec<u8>| !bytes.is_empty() && base64_length(bytes.len()) < MAX_BASE64_BYTES;
    let mut png = Vec::new();
    let written = image.write_with_encoder(PngEncoder::new(&mut png));
    if written.is_ok() && small_enough(&png) {
        return Ok(Some((png, ImageFormat::Png)));
    }
    // JPEG knows neither transparency nor 16 bits.
    let plain = DynamicImage::ImageRgb8(image.to_rgb8());
    for quality in JPEG_QUALITIES {
        abort.check()?;
        let mut jpeg = Vec::new();
        let written = plain.write_with_encoder(JpegEncoder::new_with_quality(&mut jpeg, quality));
        if written.is_ok() && small_enough(&jpeg) {
            return Ok(Some((jpeg, ImageFormat::Jpeg)));
        }
    }
    Ok(None)
}

fn base64_length(bytes: usize) -> usize {
    bytes.div_ceil(3) * 4
}

/// Into the square of the longest side, with the proportions kept.
fn fit((width, height): (u32, u32)) -> (u32, u32) {
    let longest = width.max(height);
    if longest <= MAX_SIDE {
        return (width, height);
    }
    let scale = |side: u32| {
        let scaled = (u64::from(side) * u64::from(MAX_SIDE) + u64::from(longest) / 2) / u64::from(longest);
        u32::try_from(scaled).unwrap_or(MAX_SIDE).max(1)
    };
    (scale(width), scale(height))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "three quarters of a side fit where the side did")]
fn shrink(side: u32) -> u32 {
    ((f64::from(side) * SHRINK) as u32).max(1)
}

#[cfg(test)]
mod tests;
