//go:build linux

package ui

import (
	"bytes"
	"cmp"
	"flag"
	"image"
	"image/color"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/setpoint-dev/setpoint/internal/fatal"
)

var pictures = flag.Bool("pictures", false, "make the README's pictures anew, in docs/images")

// A realistic fleet: pictures of each page in bin/e2e-ui, and of a target in docs/images with
// -pictures.
func TestABelievableFleet(t *testing.T) {
	s := believable(t)
	p := s.blank(t)
	p.goTo("/ui/?sort=-state")
	p.waitText("41 targets")
	p.wait("the past of what is shown", `![...document.querySelectorAll(".spark")].some(c => /nothing known/.test(c.ariaLabel))`)
	p.accessible()
	p.screenshot("targets-believable")
	p.goTo("/ui/clusters/eu-west/namespaces/shop/targets/checkout")
	p.waitText("When it could next change")
	p.wait("a chart", `document.querySelector(".chart canvas") !== null`)
	p.accessible()
	p.screenshot("target-believable")
	p.goTo("/ui/clusters/us-east/namespaces/payments/targets/ledger")
	p.waitText("When it could next change")
	p.screenshot("target-no-spec")
	p.goTo("/ui/clusters/eu-west/namespaces/payments/targets/fraud-score")
	p.waitText("When it could next change")
	p.screenshot("target-failing")
	p.goTo("/ui/operations")
	p.waitText("instance serves")
	p.screenshot("operations-believable")
	if !*pictures {
		return
	}
	p.goTo("/ui/clusters/eu-west/namespaces/shop/targets/checkout")
	p.waitText("When it could next change")
	folder := filepath.Join("..", "..", "..", "docs", "images")
	fatal.If(t, os.MkdirAll(folder, 0o755))
	p.size(1280, 840)
	for _, scheme := range []string{"dark", "light"} {
		p.scheme(scheme)
		p.wait("a chart", `document.querySelector(".chart canvas") !== null`)
		picture := small(t, result(p, chromedp.CaptureScreenshot()))
		fatal.If(t, os.WriteFile(filepath.Join(folder, "page-"+scheme+".png"), picture, 0o644))
		t.Logf("page-%s.png: %d bytes", scheme, len(picture))
	}
}

// small reduces a picture to its 256 most frequent colours, the others mapped to the nearest:
// text and lines look the same, at half the size.
func small(t *testing.T, picture []byte) []byte {
	t.Helper()
	from, err := png.Decode(bytes.NewReader(picture))
	fatal.If(t, err)
	count := map[color.RGBA]int{}
	at := func(x, y int) color.RGBA { return color.RGBAModel.Convert(from.At(x, y)).(color.RGBA) }
	bounds := from.Bounds()
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			count[at(x, y)]++
		}
	}
	most := slices.SortedFunc(maps.Keys(count), func(a, b color.RGBA) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a.R, b.R), cmp.Compare(a.G, b.G), cmp.Compare(a.B, b.B))
	})
	var palette color.Palette
	for _, c := range most[:min(len(most), 256)] {
		palette = append(palette, c)
	}
	index := map[color.RGBA]uint8{}
	for c := range count {
		index[c] = uint8(palette.Index(c))
	}
	to := image.NewPaletted(bounds, palette)
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			to.SetColorIndex(x, y, index[at(x, y)])
		}
	}
	var out bytes.Buffer
	fatal.If(t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, to))
	return out.Bytes()
}
