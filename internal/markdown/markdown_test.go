package markdown_test

import (
	"reflect"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/markdown"
)

func TestAnchorsAreThoseOfCodeHosts(t *testing.T) {
	t.Parallel()
	page := markdown.Parse([]byte("# Why did it (not) scale?\n\n## `--flag`: a & *b*\n\n## Twice\n\n## Twice\n\n## Größe_x\n\n<a id=\"own\"></a>\n"))
	var anchors []string
	for _, heading := range page.Headings {
		anchors = append(anchors, heading.Anchor)
	}
	want := []string{"why-did-it-not-scale", "--flag-a--b", "twice", "twice-1", "größe_x"}
	if !reflect.DeepEqual(anchors, want) {
		t.Errorf("anchors are %q, want %q", anchors, want)
	}
	if !page.HasAnchor("twice-1") || !page.HasAnchor("own") || page.HasAnchor("twice-2") {
		t.Error("HasAnchor knows other anchors")
	}
}

func TestLinksAreFoundInMarkdownAndHTML(t *testing.T) {
	t.Parallel()
	page := markdown.Parse([]byte("[a](b.md#c), `[no](code)` ![p](p.svg)\n\n" +
		"<picture><source srcset=\"dark.svg\"><img src='light.svg'></picture>\n\n[by name][n]\n\n[n]: by-name.md\n\n```\n[no](fenced)\n```\n"))
	want := []markdown.Link{
		{To: "b.md#c", Line: 1},
		{To: "p.svg", Line: 1, Picture: true},
		{To: "dark.svg", Line: 3, Picture: true},
		{To: "light.svg", Line: 3, Picture: true},
		{To: "by-name.md", Line: 5},
	}
	if !reflect.DeepEqual(page.Links, want) {
		t.Errorf("links are %+v, want %+v", page.Links, want)
	}
}

func TestABlockHasItsNoteAndItsPlace(t *testing.T) {
	t.Parallel()
	page := markdown.Parse([]byte("<!-- not run: it takes\na day -->\n```sh\nmake nightly\n```\n\n```text\nout\n```\n\nWords.\n\n```sh\nls\n```\n<!-- file: x.yaml -->\n```yaml\na: 1\n```\n"))
	want := []markdown.Block{
		{Language: "sh", Text: "make nightly\n", Line: 4, Note: "not run: it takes\na day"},
		{Language: "text", Text: "out\n", Line: 8, After: true},
		{Language: "sh", Text: "ls\n", Line: 14},
		{Language: "yaml", Text: "a: 1\n", Line: 18, Note: "file: x.yaml", After: true},
	}
	if !reflect.DeepEqual(page.Blocks, want) {
		t.Errorf("blocks are\n%+v, want\n%+v", page.Blocks, want)
	}
}
