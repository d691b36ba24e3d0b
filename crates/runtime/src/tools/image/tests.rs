//! Real, broken, huge and lying images.

use ::image::{GrayImage, Rgb, RgbImage, Rgba, RgbaImage};
use serde_json::json;

use super::*;
use crate::tools::testing::{Home, text};

fn encoded(image: &DynamicImage, format: ImageFormat) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    image.write_to(&mut bytes, format).unwrap();
    bytes.into_inner()
}

fn small(format: ImageFormat) -> Vec<u8> {
    encoded(&RgbImage::from_fn(4, 3, |x, y| Rgb([x as u8, y as u8, 9])).into(), format)
}

/// Does not compress; 16 bits for each colour make much of few pixels.
fn noise(width: u32, height: u32) -> DynamicImage {
    let mut state = 12_345_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 48) as u16
    };
    let samples = (0..width * height * 3).map(|_| next()).collect();
    DynamicImage::ImageRgb16(::image::ImageBuffer::from_raw(width, height, samples).unwrap())
}

fn image_of(output: &ToolOutput) -> Option<(Vec<u8>, &str)> {
    output.content.iter().find_map(|block| match block {
        UserBlock::Image(image) => Some((STANDARD.decode(&image.data).unwrap(), image.mime_type.as_str())),
        UserBlock::Text(_) => None,
    })
}

#[tokio::test]
async fn small_images_pass_unchanged_whatever_their_name() {
    let home = Home::new();
    for (format, mime) in [
        (ImageFormat::Png, "image/png"),
        (ImageFormat::Jpeg, "image/jpeg"),
        (ImageFormat::Gif, "image/gif"),
        (ImageFormat::WebP, "image/webp"),
    ] {
        let bytes = small(format);
        home.write("picture.txt", &bytes);
        let output = home.call("read", json!({"path": "picture.txt"})).await;
        assert_eq!(text(&output), format!("Read image file [{mime}]"));
        assert_eq!(image_of(&output), Some((bytes, mime)));
        assert_eq!((output.content.len(), output.details), (2, None));
    }
}

#[tokio::test]
async fn what_is_no_image_is_text() {
    let home = Home::new();
    for (name, content) in
        [("page.png", "<!DOCTYPE html><p>404"), ("empty.png", ""), ("short.png", "\u{7f}PNG"), ("riff.webp", "RIFFxxxxWAVE")]
    {
        home.write(name, content);
        assert_eq!(home.call("read", json!({"path": name})).await, ToolOutput::text(content), "{name}");
    }
}

#[tokio::test]
async fn broken_images_are_left_out() {
    let home = Home::new();
    let png = small(ImageFormat::Png);
    let omitted = format!("Read image file [image/png]\n{OMITTED}");
    for cut in [png.len() - 20, 40, 16] {
        home.write("broken.png", &png[..cut]);
        assert_eq!(home.call("read", json!({"path": "broken.png"})).await, ToolOutput::text(omitted.clone()), "cut at {cut}");
    }
    home.write("broken.jpg", b"\xff\xd8\xff\xe0 and nothing more");
    assert_eq!(image_of(&home.call("read", json!({"path": "broken.jpg"})).await), None);
}

/// The checksum of PNG chunks.
fn crc32(bytes: &[u8]) -> u32 {
    let step =
        |crc: u32, byte: &u8| (0..8).fold(crc ^ u32::from(*byte), |crc, _| if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 });
    !bytes.iter().fold(u32::MAX, step)
}

#[tokio::test]
async fn a_bomb_is_left_out_without_being_unpacked() {
    // A valid header that claims 60,000 x 60,000 pixels.
    let home = Home::new();
    let mut png = small(ImageFormat::Png);
    png[16..24].copy_from_slice(&[0, 0, 0xea, 0x60, 0, 0, 0xea, 0x60]);
    let checksum = crc32(&png[12..29]);
    png[29..33].copy_from_slice(&checksum.to_be_bytes());
    let reader = ImageReader::with_format(Cursor::new(&png), ImageFormat::Png);
    assert_eq!(reader.into_dimensions().unwrap(), (60_000, 60_000));
    home.write("bomb.png", &png);
    assert_eq!(image_of(&home.call("read", json!({"path": "bomb.png"})).await), None);
    // A file that is longer than any picture; sparse.
    home.write("long.png", small(ImageFormat::Png));
    std::fs::OpenOptions::new().write(true).open(home.path("long.png")).unwrap().set_len(1 << 33).unwrap();
    assert_eq!(image_of(&home.call("read", json!({"path": "long.png"})).await), None);
}

#[tokio::test]
async fn long_sides_are_scaled() {
    let home = Home::new();
    home.write("wide.png", encoded(&GrayImage::new(9000, 10).into(), ImageFormat::Png));
    let output = home.call("read", json!({"path": "wide.png"})).await;
    let note = "[Image: original 9000x10, displayed at 2000x2. Multiply coordinates by 4.50 to map to original image.]";
    assert_eq!(text(&output), format!("Read image file [image/png]\n{note}"));
    let (bytes, mime) = image_of(&output).unwrap();
    let shown = ::image::load_from_memory(&bytes).unwrap();
    assert_eq!((shown.width(), shown.height(), mime), (2000, 2, "image/png"));

    home.write("edge.png", encoded(&GrayImage::new(2000, 1).into(), ImageFormat::Png));
    assert_eq!(text(&home.call("read", json!({"path": "edge.png"})).await), "Read image file [image/png]");
}

#[test]
fn big_files_become_small_enough() {
    // About 3.6 MB as PNG: no side is too long, but the file is.
    let bytes = encoded(&noise(780, 770), ImageFormat::Png);
    assert!(base64_length(bytes.len()) > MAX_BASE64_BYTES);
    let shown = prepare(&bytes, ImageFormat::Png, &Abort::default()).unwrap();
    let Shown::Resized { bytes, format, original, displayed } = shown else { panic!("{shown:?}") };
    assert_eq!((format, original, displayed), (ImageFormat::Jpeg, (780, 770), (780, 770)));
    assert!(base64_length(bytes.len()) < MAX_BASE64_BYTES);
    let text = text(&describe(&[], ImageFormat::Png, Shown::Resized { bytes, format, original, displayed })).to_owned();
    assert!(
        text.starts_with("Read image file [image/jpeg]\n[Image: original 780x770, displayed at 780x770. Multiply coordinates by 1.00 ")
    );
}

#[test]
fn transparency_and_turned_images() {
    let wide = encoded(&RgbaImage::from_pixel(2100, 3, Rgba([1, 2, 3, 0])).into(), ImageFormat::Png);
    assert!(matches!(prepare(&wide, ImageFormat::Png, &Abort::default()), Ok(Shown::Resized { format: ImageFormat::Png, .. })));

    // An EXIF block that says: turned by 90 degrees.
    let jpeg = encoded(&RgbImage::new(2100, 8).into(), ImageFormat::Jpeg);
    let exif = b"\xff\xe1\x00\x22Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0";
    let turned = [&jpeg[..2], exif, &jpeg[2..]].concat();
    let shown = prepare(&turned, ImageFormat::Jpeg, &Abort::default()).unwrap();
    let Shown::Resized { original, displayed, .. } = shown else { panic!("{shown:?}") };
    assert_eq!((original, displayed), ((8, 2100), (8, 2000)));
}

#[test]
fn animated_png_is_no_image() {
    let png = small(ImageFormat::Png);
    // After IHDR (8 + 25 bytes) an acTL chunk.
    let animated = [&png[..33], b"\0\0\0\x08acTL\0\0\0\x01\0\0\0\0\0\0\0\0".as_slice(), &png[33..]].concat();
    assert_eq!((format_of(&png), format_of(&animated)), (Some(ImageFormat::Png), None));
}

#[test]
fn sizes() {
    assert_eq!(fit((2001, 2000)), (2000, 1999));
    assert_eq!(fit((100_000, 1)), (2000, 1));
    assert_eq!(fit((3000, 4000)), (1500, 2000));
    assert_eq!((shrink(2000), shrink(2), shrink(1)), (1500, 1, 1));
    assert_eq!(base64_length(3_538_944), MAX_BASE64_BYTES);
}
