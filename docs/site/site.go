// Package site makes a static site of the repository's Markdown: pages beside each other as
// their sources are, one style, and a search that works from files, without a server and
// without a request to anywhere.
package site

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"

	"github.com/setpoint-dev/setpoint/internal/markdown"
)

//go:embed page.html style.css page.js search.js
var assets embed.FS

// sources is where files that are no pages are read.
const sources = "https://github.com/setpoint-dev/setpoint/blob/main/"

// An Entry is a search result: a page, a part of one, or a row of a table that begins with a
// name, such as a flag.
type Entry struct {
	Title string `json:"t"`
	Page  string `json:"p"` // the page's title
	URL   string `json:"u"` // from the site's root
	Text  string `json:"x"` // what it says, shortened
	Name  bool   `json:"n,omitempty"`
}

// A page is one of the site's.
type page struct {
	source string // its file from the repository's root, with slashes
	url    string // from the site's root
	title  string
	body   template.HTML
	parsed *markdown.Page
}

// Build writes the site of the repository at root into a new folder, and returns the search
// entries.
func Build(root, into string) ([]Entry, error) {
	names, err := pageNames(root)
	if err != nil {
		return nil, err
	}
	known := make(map[string]string, len(names))
	for _, name := range names {
		known[name] = target(name)
	}
	var pages []page
	var entries []Entry
	copies := map[string]bool{"api/openapi/setpoint.openapi.json": true, "api/openapi/setpoint.swagger.json": true}
	for _, name := range names {
		source, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return nil, err
		}
		if name == decisions+"README.md" {
			list, err := listed(root, names, decisions)
			if err != nil {
				return nil, err
			}
			source = append(source, list...)
		}
		one, found, err := render(root, name, source, known, copies)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		pages = append(pages, one)
		entries = append(entries, found...)
	}
	layout, err := template.ParseFS(assets, "page.html")
	if err != nil {
		return nil, err
	}
	places := readingOrder(pages)
	for _, one := range pages {
		var out bytes.Buffer
		if err := layout.Execute(&out, view(one, pages, places)); err != nil {
			return nil, err
		}
		if err := write(into, one.url, out.Bytes()); err != nil {
			return nil, err
		}
	}
	for name := range copies {
		content, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return nil, err
		}
		if err := write(into, name, content); err != nil {
			return nil, err
		}
	}
	for _, name := range []string{"style.css", "page.js", "search.js"} {
		content, err := assets.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if err := write(into, name, content); err != nil {
			return nil, err
		}
	}
	index, err := json.Marshal(entries)
	if err != nil {
		return nil, err
	}
	// A script, for pages that are read from files may not fetch.
	return entries, write(into, "search-index.js", slices.Concat([]byte("window.setpointIndex = "), index, []byte(";\n")))
}

// decisions is a folder whose own page doesn't list the others: a code host does.
const decisions = "docs/decisions/"

// listed is a list of the other pages of a folder, by their titles.
func listed(root string, names []string, folder string) ([]byte, error) {
	list := []byte("\n")
	for _, name := range names {
		if file, ok := strings.CutPrefix(name, folder); ok && file != "README.md" {
			source, err := os.ReadFile(filepath.Join(root, name))
			if err != nil {
				return nil, err
			}
			title, _, _ := strings.Cut(strings.TrimPrefix(string(source), "# "), "\n")
			list = fmt.Appendf(list, "- [%s](%s)\n", title, file)
		}
	}
	return list, nil
}

// left are files that readers do not come for.
var left = regexp.MustCompile(`(^|/)(testdata|node_modules|bin|\.git|\.github)(/|$)|^(tools|web)(/|$)|^THIRD_PARTY\.md$`)

func pageNames(root string) ([]string, error) {
	var names []string
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		inside, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		inside = filepath.ToSlash(inside)
		switch {
		case left.MatchString(inside) && entry.IsDir():
			return filepath.SkipDir
		case path.Ext(inside) == ".md" && !left.MatchString(inside):
			names = append(names, inside)
		}
		return nil
	})
	return names, err
}

// target is a page's address, from the site's root.
func target(name string) string {
	folder, file := path.Split(name)
	if file == "README.md" {
		return folder + "index.html"
	}
	return strings.TrimSuffix(name, ".md") + ".html"
}

func render(root, name string, source []byte, known map[string]string, copies map[string]bool) (page, []Entry, error) {
	grammar := markdown.Grammar()
	grammar.Renderer().AddOptions(html.WithUnsafe()) // the pictures of pages, which are ours
	document := grammar.Parser().Parse(text.NewReader(source))
	parsed := markdown.Read(document, source)
	one := page{source: name, url: target(name), parsed: parsed, title: name}
	if len(parsed.Headings) > 0 {
		one.title = parsed.Headings[0].Text
	}
	for _, link := range parsed.Links {
		if file := path.Join(path.Dir(name), link.To); link.Picture && !strings.Contains(link.To, ":") {
			copies[file] = true
		}
	}
	entries := address(document, source, &one)
	_ = ast.Walk(document, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if link, ok := node.(*ast.Link); ok && entering {
			link.Destination = []byte(follow(root, name, string(link.Destination), known, copies))
		}
		return ast.WalkContinue, nil
	})
	var out bytes.Buffer
	if err := grammar.Renderer().Render(&out, source, document); err != nil {
		return page{}, nil, err
	}
	one.body = template.HTML(out.String()) //nolint:gosec // pages of this repository
	return one, entries, nil
}

// follow is where a link of a page leads on the site.
func follow(root, from, to string, known map[string]string, copies map[string]bool) string {
	file, anchor, hasAnchor := strings.Cut(to, "#")
	if file == "" || strings.Contains(file, ":") {
		return to
	}
	file = path.Join(path.Dir(from), file)
	url, ok := known[file]
	if !ok {
		url, ok = known[path.Join(file, "README.md")]
	}
	if !ok && copies[file] {
		url, ok = file, true
	}
	if !ok {
		if info, err := os.Stat(filepath.Join(root, file)); err == nil && info.IsDir() {
			return strings.Replace(sources, "/blob/", "/tree/", 1) + file
		}
		return sources + strings.TrimSuffix(file+"#"+anchor, "#")
	}
	relative := relative(from, url)
	if hasAnchor {
		relative += "#" + anchor
	}
	return relative
}

func relative(from, to string) string {
	up := strings.Repeat("../", strings.Count(from, "/"))
	return up + to
}

// address gives headings and rows of tables their anchors, and returns the search entries of
// the page.
func address(document ast.Node, source []byte, one *page) []Entry {
	entries := []Entry{{Title: one.title, Page: one.title, URL: one.url}}
	current := &entries[0]
	heading := 0
	taken := map[string]bool{} // headings keep what they are linked by elsewhere
	for _, heading := range one.parsed.Headings {
		taken[heading.Anchor] = true
	}
	for node := document.FirstChild(); node != nil; node = node.NextSibling() {
		switch node := node.(type) {
		case *ast.Heading:
			this := one.parsed.Headings[heading]
			heading++
			node.SetAttributeString("id", []byte(this.Anchor))
			if heading > 1 {
				entries = append(entries, Entry{Title: this.Text, Page: one.title, URL: one.url + "#" + this.Anchor})
				current = &entries[len(entries)-1]
			}
		case *extast.Table:
			at := len(entries) - 1
			entries = append(entries, rows(node, source, one, taken)...)
			current = &entries[at]
		case *ast.HTMLBlock:
		default:
			if len(current.Text) < 600 {
				current.Text = strings.TrimSpace(current.Text + " " + words(node, source))
			}
		}
	}
	for i := range entries {
		entries[i].Text = shorten(entries[i].Text, 600)
	}
	return entries
}

// rows are the rows of a table that begin with a name in code.
func rows(table *extast.Table, source []byte, one *page, taken map[string]bool) []Entry {
	var entries []Entry
	for row := table.FirstChild(); row != nil; row = row.NextSibling() {
		if _, ok := row.(*extast.TableRow); !ok {
			continue
		}
		cell := row.FirstChild()
		rest := ""
		for other := cell.NextSibling(); other != nil; other = other.NextSibling() {
			rest += " " + words(other, source)
		}
		found := false
		_ = ast.Walk(cell, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
			code, ok := node.(*ast.CodeSpan)
			if !ok || !entering {
				return ast.WalkContinue, nil
			}
			name, _, _ := strings.Cut(words(code, source), " ") // without the value of a flag
			name = strings.TrimRight(name, "=:")
			if len(name) < 2 {
				return ast.WalkSkipChildren, nil
			}
			if !found {
				found = true
				anchor := markdown.Anchor(name)
				for anchor == "" || taken[anchor] {
					anchor += "-"
				}
				taken[anchor] = true
				row.SetAttributeString("id", []byte(anchor))
			}
			id, _ := row.AttributeString("id")
			entries = append(entries, Entry{Title: name, Page: one.title, URL: one.url + "#" + string(id.([]byte)), Text: shorten(strings.TrimSpace(rest), 400), Name: true})
			return ast.WalkSkipChildren, nil
		})
	}
	return entries
}

// words are the words of a node and all below it.
func words(node ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(node, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			if node.Type() == ast.TypeBlock {
				b.WriteByte(' ')
			}
			return ast.WalkContinue, nil
		}
		switch node := node.(type) {
		case *ast.Text:
			b.Write(node.Value(source))
			if node.SoftLineBreak() {
				b.WriteByte(' ')
			}
		case *ast.String:
			b.Write(node.Value)
		case *ast.FencedCodeBlock, *ast.CodeBlock:
			for i := range node.Lines().Len() {
				segment := node.Lines().At(i)
				b.Write(segment.Value(source))
			}
		}
		return ast.WalkContinue, nil
	})
	return strings.Join(strings.Fields(b.String()), " ")
}

func shorten(text string, most int) string {
	if len(text) <= most {
		return text
	}
	cut := strings.LastIndexByte(text[:most], ' ')
	return text[:max(cut, 0)] + " …"
}

// A group is a part of the menu.
type group struct {
	Title string
	Open  bool
	Links []link
}

type link struct {
	Title, URL string
	Here       bool
	place      int
}

// folders are the parts of the menu, in its order, and the folders and pages in each. The longest
// prefix counts.
var folders = []struct {
	title    string
	prefixes []string
}{
	{"Start", []string{"docs/start/", "docs/comparison.md", "README.md", "docs/README.md"}},
	{"Concepts", []string{"docs/concepts/"}},
	{"Guides", []string{"docs/guides/", "docs/troubleshoot.md", "clients/", "examples/"}},
	{"Reference", []string{"docs/reference/"}},
	{"API", []string{"docs/reference/api/"}},
	{"Commands", []string{"docs/reference/cli/"}},
	{"Operate", []string{"docs/operate/", "deploy/"}},
	{"Runbooks", []string{"docs/runbooks/"}},
	{"Internals", []string{"docs/internals/", "CONTRIBUTING.md", "conformance/"}},
	{"Decisions", []string{decisions}},
	{"More", []string{""}},
}

// readingOrder returns the place of each page in the menu, by its source: pages stand as
// their folder's own page lists them, or else as the map of all pages does, so that the order is
// written down once and for readers. What neither links to has no place.
func readingOrder(pages []page) map[string]int {
	places := map[string]int{"README.md": 0, "docs/README.md": 1}
	list := func(from page, within string) {
		for _, link := range from.parsed.Links {
			to := path.Join(path.Dir(from.source), link.To)
			if _, ok := places[to]; !ok && path.Ext(to) == ".md" && strings.HasPrefix(to, within) {
				places[to] = len(places)
			}
		}
	}
	for _, one := range pages {
		if folder, file := path.Split(one.source); file == "README.md" && folder != "" && folder != "docs/" {
			list(one, folder)
		}
	}
	for _, one := range pages {
		if one.source == "docs/README.md" {
			list(one, "")
		}
	}
	return places
}

func view(one page, pages []page, places map[string]int) any {
	groups := make([]group, len(folders))
	for i, folder := range folders {
		groups[i].Title = folder.title
	}
	for _, other := range pages {
		best, longest := 0, -1
		for i, folder := range folders {
			for _, prefix := range folder.prefixes {
				if strings.HasPrefix(other.source, prefix) && len(prefix) > longest {
					best, longest = i, len(prefix)
				}
			}
		}
		here := other.url == one.url
		groups[best].Open = groups[best].Open || here
		place, ok := places[other.source]
		if !ok {
			place = len(pages)
		}
		groups[best].Links = append(groups[best].Links, link{Title: other.title, URL: relative(one.source, other.url), Here: here, place: place})
	}
	for i := range groups {
		slices.SortStableFunc(groups[i].Links, func(a, b link) int {
			// A folder's own page comes first. Pages without a place stand as their files do.
			return cmp.Or(cmp.Compare(btoi(!strings.HasSuffix(a.URL, "index.html")), btoi(!strings.HasSuffix(b.URL, "index.html"))), cmp.Compare(a.place, b.place), cmp.Compare(a.URL, b.URL))
		})
	}
	groups = slices.DeleteFunc(groups, func(g group) bool { return len(g.Links) == 0 })
	var parts []markdown.Heading
	for _, heading := range one.parsed.Headings {
		if heading.Level == 2 || heading.Level == 3 {
			parts = append(parts, heading)
		}
	}
	if len(parts) > 60 { // a reference has its table, or the search
		parts = slices.DeleteFunc(parts, func(h markdown.Heading) bool { return h.Level > 2 })
	}
	return struct {
		Title, Root, Source, Map string
		Body                     template.HTML
		Groups                   []group
		Parts                    []markdown.Heading
	}{one.title, relative(one.source, ""), sources + one.source, relative(one.source, "docs/index.html"), one.body, groups, parts}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func write(into, name string, content []byte) error {
	file := filepath.Join(into, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, content, 0o644)
}
