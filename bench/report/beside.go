package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// BesideCommand is the argument of the tool that runs [RunBeside].
const BesideCommand = "beside"

// RunBeside reads reports of two builds and writes a table that compares them: the arguments
// are the files of the old one, --, and those of the new one.
func RunBeside(args []string, out io.Writer) error {
	at := slices.Index(args, "--")
	if at < 1 || at == len(args)-1 {
		return errors.New("beside: name the old build's reports, --, and the new build's")
	}
	older, err := Read(args[:at])
	if err != nil {
		return err
	}
	newer, err := Read(args[at+1:])
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, Beside(older, newer))
	return err
}

// Read reads reports from files.
func Read(files []string) ([]*Report, error) {
	reports := make([]*Report, len(files))
	for i, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(text, &reports[i]); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	return reports, nil
}

// Beside returns a table of the figures with a goal: the medians of all runs of an old and a new
// build, and their ratio. A figure that only one of them has is shown without a ratio.
func Beside(older, newer []*Report) string {
	before, titles := joined(older)
	after, later := joined(newer)
	for _, title := range later {
		if !slices.Contains(titles, title) {
			titles = append(titles, title)
		}
	}
	var b strings.Builder
	b.WriteString("| What | Goal | Old | New | New of old |\n|---|---:|---:|---:|---:|\n")
	for _, title := range titles {
		was, is := before[title], after[title]
		share, f := "–", is
		switch {
		case is == nil:
			f = was
		case was != nil && was.Median() != 0:
			share = fmt.Sprintf("%.3f", is.Median()/was.Median())
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", title, f.goal(), was.besides(), is.besides(), share)
	}
	return b.String()
}

// joined are the figures with a goal, with the runs of all reports, by title.
func joined(reports []*Report) (figures map[string]*Figure, titles []string) {
	figures = map[string]*Figure{}
	for _, r := range reports {
		for i := range r.Scenarios {
			s := &r.Scenarios[i]
			for j := range s.Figures {
				f, title := &s.Figures[j], s.Title+": "+s.Figures[j].Name
				switch known := figures[title]; {
				case f.Goal == nil:
				case known == nil:
					figures[title] = &Figure{Name: f.Name, Unit: f.Unit, Goal: f.Goal, Runs: slices.Clone(f.Runs)}
					titles = append(titles, title)
				default:
					known.Runs = append(known.Runs, f.Runs...)
				}
			}
		}
	}
	return figures, titles
}

func (f *Figure) besides() string {
	if f == nil {
		return "–"
	}
	return f.measured()
}
