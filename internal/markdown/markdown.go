// Package markdown parses pages of Markdown for the checks of the documentation:
// headings with the anchors that code hosts give them, links, and blocks of code with the
// comment before each. The grammar is goldmark's.
package markdown

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"
)

// A Page is the content of one file, each list in the order of the file.
type Page struct {
	Headings []Heading
	Links    []Link
	Blocks   []Block
	anchors  map[string]bool
}

// A Heading is a heading of a page. Its link is '#' and Anchor.
type Heading struct {
	Level  int
	Text   string
	Anchor string
	Line   int
}

// A Link is a link or a picture, in Markdown or in HTML. Line is 0 where it is not known.
type Link struct {
	To      string
	Line    int
	Picture bool
}

// A Block is fenced code. Language is the fence's first word, Text ends with a line break
// unless it is empty, and Line is the first line of the text, from 1. Note is the text of an
// HTML comment right before it; After reports that only such a comment, or nothing, separates
// the block from the previous one.
type Block struct {
	Language string
	Text     string
	Line     int
	Note     string
	After    bool
}

var (
	htmlLink    = regexp.MustCompile(`(?i)<(a|img|source)\s[^>]*?(?:href|src|srcset)\s*=\s*["']([^"']*)["']`)
	htmlAnchor  = regexp.MustCompile(`(?i)<[a-z]+\s[^>]*?(?:id|name)\s*=\s*["']([^"']*)["']`)
	htmlComment = regexp.MustCompile(`(?s)^\s*<!--(.*?)-->\s*$`)
)

// Parse parses a page as code hosts do, with tables. It never fails: any text is at least a
// paragraph.
func Parse(source []byte) *Page {
	document := goldmark.New(goldmark.WithExtensions(extension.GFM)).Parser().Parse(text.NewReader(source))
	page := &Page{anchors: map[string]bool{}}
	taken := map[string]int{}
	line := func(offset int) int { return 1 + bytes.Count(source[:offset], []byte("\n")) }
	current := 0 // the line of the current block
	_ = ast.Walk(document, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		if node.Type() == ast.TypeBlock && node.Lines() != nil && node.Lines().Len() > 0 {
			current = line(node.Lines().At(0).Start)
		}
		switch node := node.(type) {
		case *ast.Heading:
			words := plain(node, source)
			anchor := Anchor(words)
			if count := taken[anchor]; count > 0 {
				taken[anchor]++
				anchor += "-" + strconv.Itoa(count)
			}
			taken[anchor]++
			page.anchors[anchor] = true
			page.Headings = append(page.Headings, Heading{Level: node.Level, Text: words, Anchor: anchor, Line: current})
		case *ast.Link:
			page.Links = append(page.Links, Link{To: string(node.Destination), Line: current})
		case *ast.Image:
			page.Links = append(page.Links, Link{To: string(node.Destination), Line: current, Picture: true})
		case *ast.AutoLink:
			page.Links = append(page.Links, Link{To: string(node.URL(source)), Line: current})
		case *ast.RawHTML:
			page.html(node.Segments.Value(source), current)
		case *ast.HTMLBlock:
			page.html(lines(node.Lines(), source), current)
		case *ast.FencedCodeBlock:
			page.block(node, source, current)
		}
		return ast.WalkContinue, nil
	})
	return page
}

// HasAnchor reports whether the page has that anchor.
func (p *Page) HasAnchor(name string) bool { return p.anchors[name] }

// Anchor returns the anchor that code hosts make of a heading: lower-case letters, digits, '_'
// and '-', with a '-' for each space, and nothing else.
func Anchor(words string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ', r == '-':
			return '-'
		case r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, strings.TrimSpace(words))
}

func (p *Page) html(raw []byte, line int) {
	for _, match := range htmlLink.FindAllSubmatch(raw, -1) {
		to, _, _ := strings.Cut(strings.TrimSpace(string(match[2])), " ") // srcset may name a width
		p.Links = append(p.Links, Link{To: to, Line: line, Picture: !strings.EqualFold(string(match[1]), "a")})
	}
	for _, match := range htmlAnchor.FindAllSubmatch(raw, -1) {
		p.anchors[string(match[1])] = true
	}
}

func (p *Page) block(node *ast.FencedCodeBlock, source []byte, line int) {
	block := Block{Language: string(node.Language(source)), Text: string(lines(node.Lines(), source)), Line: line}
	before := node.PreviousSibling()
	if comment, ok := before.(*ast.HTMLBlock); ok {
		raw := lines(comment.Lines(), source)
		if comment.HasClosure() {
			raw = append(raw, comment.ClosureLine.Value(source)...)
		}
		if match := htmlComment.FindSubmatch(raw); match != nil {
			block.Note = strings.TrimSpace(string(match[1]))
			before = before.PreviousSibling()
		}
	}
	_, block.After = before.(*ast.FencedCodeBlock)
	p.Blocks = append(p.Blocks, block)
}

func lines(segments *text.Segments, source []byte) []byte {
	var all []byte
	for i := range segments.Len() {
		segment := segments.At(i)
		all = append(all, segment.Value(source)...)
	}
	return all
}

// plain returns the text of a node without markup.
func plain(node ast.Node, source []byte) string {
	var words strings.Builder
	_ = ast.Walk(node, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch node := node.(type) {
		case *ast.Text:
			words.Write(node.Value(source))
			if node.SoftLineBreak() {
				words.WriteByte(' ')
			}
		case *ast.String:
			words.Write(node.Value)
		case *ast.AutoLink:
			words.Write(node.Label(source))
		}
		return ast.WalkContinue, nil
	})
	return words.String()
}
