//go:build linux

package ui_test

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
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

var pictures = flag.Bool("pictures", false, "make the README's pictures anew, in docs/images")

// A realistic fleet: pictures of each page in bin/e2e-ui, and of a target in docs/images with
// -pictures.
func TestABelievableFleet(t *testing.T) {
	s := believable(t)
	p := s.blank(t)
	p.goTo("/ui/?sort=-state")
	p.waitText("41 targets")
	p.wait("the past of what is shown", `![...document.querySelectorAll("canvas.spark")].some(c => /nothing known/.test(c.ariaLabel))`)
	p.accessible()
	p.screenshot("fleet-believable")
	p.goTo("/ui/clusters/eu-west/namespaces/shop/targets/checkout")
	p.waitText("When it could next change")
	p.wait("a chart", `document.querySelector(".chart canvas") !== null`)
	p.accessible()
	computed(t, s, p)
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
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	computed(t, s, p)
	p.size(1280, 840)
	for _, scheme := range []string{"dark", "light"} {
		p.scheme(scheme)
		p.wait("a chart", `document.querySelector(".chart canvas") !== null`)
		picture := small(t, result(p, chromedp.CaptureScreenshot()))
		if err := os.WriteFile(filepath.Join(folder, "page-"+scheme+".png"), picture, 0o644); err != nil {
			t.Fatal(err)
		}
		t.Logf("page-%s.png: %d bytes", scheme, len(picture))
	}
}

// computed checks the arithmetic that a target's page shows: with the numbers as they stand there
// the engine proposes the count that stands there.
func computed(t *testing.T, s *siteOf, p *page) {
	t.Helper()
	text := strings.Join(eval[[]string](p, `[...document.querySelectorAll(".sum")].map(e => e.textContent)`), "\n")
	// 107.6 / 120 = 0.897
	// 14 replicas × 0.897 = 12.56 → 13, or: 0.95 is within the usual tolerance of 0.1: no change
	shown := regexp.MustCompile(`^([\d.]+) / ([\d.]+) = ([\d.]+)\n(?:(\d+) replicas? × ([\d.]+) = ([\d.]+)(?: → (\d+))?|[\d.]+ is within .*)$`).FindStringSubmatch(text)
	if shown == nil {
		t.Fatalf("the page computes %q", text)
	}
	number := func(text string) float64 {
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	replicas := int32(10)
	want := replicas // within the tolerance
	if shown[4] != "" {
		replicas, want = int32(number(shown[4])), int32(number(cmp.Or(shown[7], shown[6])))
	}
	answer, err := s.Recommendations().Recommend(t.Context(), &setpointv1.RecommendRequest{
		Target: "clusters/demo/namespaces/test/targets/picture", DryRun: true, Explain: true,
		Spec: &setpointv1.HorizontalPodAutoscalerSpec{MaxReplicas: 1000, Metrics: []*setpointv1.MetricSpec{{Type: "External", External: &setpointv1.ExternalMetricSource{
			Metric: &setpointv1.MetricIdentifier{Name: "shown"}, Target: &setpointv1.MetricTarget{Type: "AverageValue", AverageValue: &shown[2]},
		}}}},
		Scale:           &setpointv1.Scale{SpecReplicas: replicas, StatusReplicas: &replicas},
		ExternalMetrics: []*setpointv1.ExternalMetric{{Metric: &setpointv1.MetricIdentifier{Name: "shown"}, Value: strconv.FormatFloat(number(shown[1])*float64(replicas), 'f', 3, 64)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := answer.GetExplanation().GetMetrics()[0].GetProposal(); got != want {
		t.Errorf("the page shows\n%s\nand the engine proposes %d by these numbers", text, got)
	}
}

// small reduces a picture to its 256 most frequent colours, the others mapped to the nearest:
// text and lines look the same, at half the size.
func small(t *testing.T, picture []byte) []byte {
	t.Helper()
	from, err := png.Decode(bytes.NewReader(picture))
	if err != nil {
		t.Fatal(err)
	}
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
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, to); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
