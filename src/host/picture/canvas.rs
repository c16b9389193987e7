//! A canvas of pixels, with functions that draw rectangles, antialiased lines and small texts.

use super::font;
use clk_base::stop::{self, Ticks};

/// Cost of a line segment in pixels, for the interval at which drawing polls for a stop request.
const COSTLY: usize = 1 << 10;

pub(crate) type Color = [u8; 3];

/// An RGB image with one byte per component.
pub(crate) struct PixelCanvas {
    width: usize,
    height: usize,
    pixels: Vec<u8>,
}

/// A point: x and y in pixels from the top left corner.
pub(crate) type PixelPoint = (f64, f64);

impl PixelCanvas {
    pub fn new(width: usize, height: usize, paper: Color) -> PixelCanvas {
        PixelCanvas { width, height, pixels: paper.repeat(width * height) }
    }

    pub fn size(&self) -> (u32, u32) {
        (self.width as u32, self.height as u32)
    }

    pub fn pixels(&self) -> &[u8] {
        &self.pixels
    }

    /// Blends a color into a pixel; does nothing outside of the canvas.
    fn blend(&mut self, x: i64, y: i64, color: Color, cover: f64) {
        let (Ok(x), Ok(y)) = (usize::try_from(x), usize::try_from(y)) else { return };
        if x >= self.width || y >= self.height {
            return;
        }
        let start = (y * self.width + x) * 3;
        for (place, new) in self.pixels.iter_mut().skip(start).zip(color) {
            let mixed = f64::from(*place) * (1.0 - cover) + f64::from(new) * cover;
            *place = mixed.round() as u8;
        }
    }

    pub fn rectangle(&mut self, left: i64, top: i64, width: i64, height: i64, color: Color) {
        for y in top..top + height {
            (left..left + width).for_each(|x| self.blend(x, y, color, 1.0));
        }
    }

    /// Draws a text with its top left corner at a position, with dots of `scale` by `scale` pixels.
    pub fn text(&mut self, text: &str, left: i64, top: i64, scale: i64, color: Color) {
        for (k, c) in text.chars().enumerate() {
            let left = left + k as i64 * (font::WIDTH as i64 + 1) * scale;
            for (row, bits) in font::rows(c).into_iter().enumerate() {
                for column in (0..font::WIDTH).filter(|column| bits >> (font::WIDTH - 1 - column) & 1 == 1) {
                    let (x, y) = (left + column as i64 * scale, top + row as i64 * scale);
                    self.rectangle(x, y, scale, scale, color);
                }
            }
        }
    }

    /// Draws a filled circle.
    pub fn dot(&mut self, center: PixelPoint, radius: f64, color: Color) {
        self.capsules(&[center], radius, color);
    }

    /// Draws an antialiased polyline with round ends. Pixels where the line overlaps itself are blended only once.
    pub fn line(&mut self, points: &[PixelPoint], width: f64, color: Color) {
        self.capsules(points, width / 2.0, color);
    }

    fn capsules(&mut self, points: &[PixelPoint], radius: f64, color: Color) {
        stop::poll();
        let mut cover = vec![0f32; self.width * self.height];
        let single = points.first().map(|&p| (p, p)).filter(|_| points.len() == 1);
        let segments = points.windows(2).filter_map(|pair| if let [a, b] = pair { Some((*a, *b)) } else { None });
        let ticks = Ticks::default();
        for (a, b) in segments.chain(single) {
            ticks.advance(COSTLY);
            self.capsule(&mut cover, a, b, radius);
        }
        for (at, &part) in cover.iter().enumerate().filter(|(_, part)| **part > 0.0) {
            self.blend((at % self.width) as i64, (at / self.width) as i64, color, part.into());
        }
    }

    /// Computes the coverage of each pixel by the points within `radius` of a segment.
    fn capsule(&self, cover: &mut [f32], a: PixelPoint, b: PixelPoint, radius: f64) {
        let reach = radius + 1.0;
        let bound = |low: f64, high: f64, len: usize| {
            let first = (low - reach).floor().clamp(0.0, len as f64) as usize;
            first..((high + reach).ceil().clamp(0.0, len as f64) as usize).max(first)
        };
        let (dx, dy) = (b.0 - a.0, b.1 - a.1);
        let length = (dx * dx + dy * dy).max(1e-12);
        for y in bound(a.1.min(b.1), a.1.max(b.1), self.height) {
            for x in bound(a.0.min(b.0), a.0.max(b.0), self.width) {
                let (px, py) = (x as f64 + 0.5 - a.0, y as f64 + 0.5 - a.1);
                let along = ((px * dx + py * dy) / length).clamp(0.0, 1.0);
                let distance = (px - along * dx).hypot(py - along * dy);
                let part = (radius + 0.5 - distance).clamp(0.0, 1.0) as f32;
                if let Some(place) = cover.get_mut(y * self.width + x) {
                    *place = place.max(part);
                }
            }
        }
    }
}
