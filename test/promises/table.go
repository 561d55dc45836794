package promises

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Promise is a row of the threat model's table of promises.
type Promise struct {
	Text string
	// Tests are the files, from the root of the repository, by the names of the tests that
	// hold it; of attacks, "attack NAME".
	Tests map[string]string
}

const page = "docs/operate/threat-model.md"

var linkPattern = regexp.MustCompile(`\[([^\]]+)\]\(([^)]+)\)`)

// Read returns the promises of the repository in that folder.
func Read(root string) ([]Promise, error) {
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		return nil, err
	}
	_, part, found := strings.Cut(string(text), "\n## The promises and their tests\n")
	if !found {
		return nil, errors.New(page + " has no promises")
	}
	var all []Promise
	for line := range strings.Lines(part) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || strings.HasPrefix(cells[1], "---") || strings.HasPrefix(cells[3], " held by") {
			continue
		}
		p := Promise{Text: strings.TrimSpace(cells[2]), Tests: make(map[string]string)}
		for _, link := range linkPattern.FindAllStringSubmatch(cells[3], -1) {
			p.Tests[link[1]] = filepath.Join(filepath.Dir(page), link[2])
		}
		all = append(all, p)
	}
	return all, nil
}

// Mutation is a change of the code that takes a promise's mend out.
type Mutation struct {
	// Promise is a part of the text of one row.
	Promise string
	// Test is one of the row's, which fails without the mend.
	Test string
	// File has Mend exactly once, from the root of the repository; Without replaces it.
	File, Mend, Without string
}

// Of returns the promise that a part of its text names.
func Of(all []Promise, part string) (*Promise, error) {
	var of *Promise
	for i := range all {
		if strings.Contains(all[i].Text, part) {
			if of != nil {
				return nil, fmt.Errorf("%q is a part of several promises in %s", part, page)
			}
			of = &all[i]
		}
	}
	if of == nil {
		return nil, fmt.Errorf("%s has no promise of which %q is a part", page, part)
	}
	return of, nil
}

// Folder returns the folder of the mutation's test.
func (m *Mutation) Folder(all []Promise) (string, error) {
	p, err := Of(all, m.Promise)
	if err != nil {
		return "", err
	}
	file, linked := p.Tests[m.Test]
	if !linked {
		return "", fmt.Errorf("%s is not among the tests of %q in %s", m.Test, p.Text, page)
	}
	return filepath.Dir(file), nil
}

// Apply returns the file's content without the mend.
func (m *Mutation) Apply(root string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(root, m.File))
	if err != nil {
		return nil, err
	}
	if n := strings.Count(string(text), m.Mend); n != 1 {
		return nil, fmt.Errorf("%s has the mend of %q %d times, want once: %s", m.File, m.Promise, n, m.Mend)
	}
	return []byte(strings.Replace(string(text), m.Mend, m.Without, 1)), nil
}
