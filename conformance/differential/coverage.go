package differential

import (
	"bufio"
	"cmp"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
)

// Coverage is which statements of the controller ran.
type Coverage struct {
	files map[string]map[block]bool
}

// Place is a range of lines.
type Place struct{ From, To int }

// block is a piece of a file without branches.
type block struct {
	fromLine, fromColumn, toLine, toColumn, statements int
}

// ReadCoverage reads and combines coverage profiles of the same program.
func ReadCoverage(files ...string) (*Coverage, error) {
	c := &Coverage{files: map[string]map[block]bool{}}
	for _, file := range files {
		if err := c.read(file); err != nil {
			return nil, fmt.Errorf("read the coverage: %s: %w", path.Base(file), err)
		}
	}
	return c, nil
}

func (c *Coverage) read(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "mode:") {
			continue
		}
		name, rest, ok := strings.Cut(lines.Text(), ":")
		var b block
		var count int
		if ok {
			_, err = fmt.Sscanf(rest, "%d.%d,%d.%d %d %d", &b.fromLine, &b.fromColumn, &b.toLine, &b.toColumn, &b.statements, &count)
		}
		if !ok || err != nil {
			return fmt.Errorf("malformed line %q", lines.Text())
		}
		if c.files[name] == nil {
			c.files[name] = map[block]bool{}
		}
		c.files[name][b] = c.files[name][b] || count > 0
	}
	return lines.Err()
}

// File is the coverage of one file.
type File struct {
	// Name is relative to the package's folder, for example "horizontal.go".
	Name string
	// Statements of the file, how many of them were Run, and how many are Plumbing,
	// which the other numbers exclude.
	Statements, Run, Plumbing int
	// Missed are the places that were not run.
	Missed []Place
}

// Share of the statements that was run, in percent.
func (f *File) Share() float64 {
	if f.Statements == 0 {
		return 100
	}
	return 100 * float64(f.Run) / float64(f.Statements)
}

// Files returns the files that decide, by name. plumbing reports, for a file's name and
// a line, whether to exclude its function.
func (c *Coverage) Files(plumbing func(file string, line int) bool) []File {
	var files []File
	for name, blocks := range c.files {
		f := File{Name: strings.TrimPrefix(name, strings.TrimSuffix(upstream, "..."))}
		if !decides(f.Name) {
			continue
		}
		ordered := make([]block, 0, len(blocks))
		for b := range blocks {
			ordered = append(ordered, b)
		}
		slices.SortFunc(ordered, func(a, b block) int {
			return cmp.Or(cmp.Compare(a.fromLine, b.fromLine), cmp.Compare(a.fromColumn, b.fromColumn))
		})
		for _, b := range ordered {
			switch {
			case plumbing(f.Name, b.fromLine):
				f.Plumbing += b.statements
			case blocks[b]:
				f.Statements += b.statements
				f.Run += b.statements
			default:
				f.Statements += b.statements
				f.Missed = append(f.Missed, Place{b.fromLine, b.toLine})
			}
		}
		files = append(files, f)
	}
	slices.SortFunc(files, func(a, b File) int { return cmp.Compare(a.Name, b.Name) })
	return files
}

// decides reports whether a file of the package must be covered.
func decides(file string) bool {
	return file == "horizontal.go" || file == "replica_calculator.go" || strings.HasPrefix(file, "metrics/")
}
