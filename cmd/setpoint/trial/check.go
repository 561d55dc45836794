//go:build !service

package trial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/check"
	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/explaincmd"
	"github.com/setpoint-dev/setpoint/internal/printable"
)

// checkCommand holds the flags of setpoint check.
type checkCommand struct {
	old, new, recordings   []string
	git, rules             string
	markdown, sarif, junit string
	limit                  time.Duration
	assumed                assumedFlags
	options                explaincmd.Options
	output                 *cli.OutputFlag
}

func newCheck() *cobra.Command {
	c := &checkCommand{output: cli.NewOutputFlag(cli.AsText, cli.AsJSON)}
	cmd := &cobra.Command{
		Use:   "check {--git BASE...HEAD | --old FILE --new FILE} [--recording PATH...]",
		Short: "Check a change of specs by rules, before it is merged",
		Long: `Check a change of specs by rules, before it is merged: which autoscalers change, what the
old and the new spec would have decided on recorded data, and what lint finds.

With --git the specs are those in files that differ between two commits, found by kind,
namespace and name. With --old and --new they are in files: manifests, kubectl's output,
Helm's output, stored specs; - is standard input. Recordings are those of setpoint replay.

The rules are in ` + check.RulesFile + `, with --git as it is at BASE, so that no change brings its own
rules. docs/reference/check.md lists them, with the defaults.

Exits with 1 if a rule with the level error does not hold, and with 2 if a file is invalid.`,
		Example: "  setpoint check --git origin/main...HEAD --recording recordings/\n  setpoint check --old old.yaml --new new.yaml --recording flight.jsonl.gz\n  helm template shop | setpoint check --old deployed.yaml --new -\n  setpoint check --git main...HEAD --markdown summary.md --sarif check.sarif --junit check.xml",
		Args:    cobra.NoArgs,
		RunE:    c.run,
	}
	flags := cmd.Flags()
	flags.StringVar(&c.git, "git", "", "`range` of two commits, BASE..HEAD, or BASE...HEAD for what HEAD changes since it left BASE")
	flags.StringArrayVar(&c.old, "old", nil, "`file` of the specs before the change; may be repeated")
	flags.StringArrayVar(&c.new, "new", nil, "`file` of the specs after the change; may be repeated")
	flags.StringArrayVar(&c.recordings, "recording", nil, "recording, or folder of files *.jsonl and *.jsonl.gz, a `path`; may be repeated; replaces recordings of the rules")
	flags.StringVar(&c.rules, "rules", "", "`file` of the rules (default "+check.RulesFile+", with --git as it is at BASE, else at HEAD)")
	flags.StringVar(&c.markdown, "markdown", "", "write a summary for a pull request to this `file`; - replaces the text on standard output")
	flags.StringVar(&c.sarif, "sarif", "", "write what does not hold as SARIF to this `file`; - as of --markdown")
	flags.StringVar(&c.junit, "junit", "", "write each rule as a test case of JUnit to this `file`; - as of --markdown")
	flags.VarP(c.output, "output", "o", "form of the output: text or json")
	flags.DurationVar(&c.limit, "time-limit", 30*time.Minute, "`time` after which the check ends without a verdict")
	c.assumed.bind(flags)
	c.options.Bind(flags)
	return cmd
}

func (c *checkCommand) run(cmd *cobra.Command, _ []string) error {
	if err := c.usage(); err != nil {
		return cli.BadInput(err)
	}
	assumed, err := c.assumed.read()
	if err != nil {
		return cli.BadInput(err)
	}
	ctx, stop := context.WithTimeout(cmd.Context(), c.limit)
	defer stop()
	in := &check.Input{Tell: func(err error) { fmt.Fprintln(cmd.ErrOrStderr(), "setpoint: "+printable.Block(err.Error())) }}
	if c.git != "" {
		err = c.fromGit(ctx, cmd, in)
	} else {
		err = c.fromFiles(cmd, in)
	}
	if err == nil {
		in.Settings.Assume(assumed)
		err = c.findRecordings(ctx, cmd, in)
	}
	var report *check.Report
	if err == nil {
		report, err = check.Run(ctx, in)
	}
	if ended := cmd.Context().Err(); ended != nil {
		return ended
	}
	if ctx.Err() != nil && err != nil {
		err = fmt.Errorf("the check took longer than %s, its --time-limit, and comes to no verdict: give fewer or shorter recordings, or more time", c.limit)
	}
	if err != nil {
		return cli.BadInput(err)
	}
	if err := c.write(cmd, report); err != nil {
		return cli.BadInput(fmt.Errorf("writing the report: %w", err))
	}
	if report.Verdict == check.Failed {
		return cli.ErrQuiet
	}
	return nil
}

// usage says what is wrong with the flags.
func (c *checkCommand) usage() error {
	switch files := len(c.old) + len(c.new); {
	case c.git == "" && files == 0:
		return errors.New("give --git BASE...HEAD, or --old and --new; see setpoint check --help")
	case c.git != "" && files > 0:
		return errors.New("--git replaces --old and --new: give one or the other")
	case c.limit <= 0:
		return errors.New("--time-limit must be more than 0")
	case c.git == "" && len(c.new) == 0:
		return errors.New("--new is missing: the specs after the change")
	}
	in, out := 0, 0
	for _, name := range slices.Concat(c.old, c.new, c.recordings) {
		if name == "-" {
			in++
		}
	}
	files := make(map[string]bool)
	for _, name := range []string{c.markdown, c.sarif, c.junit} {
		switch clean := filepath.Clean(name); {
		case name == "-":
			out++
		case name != "" && files[clean]:
			return fmt.Errorf("--markdown, --sarif and --junit need a file each: %s is given twice", name)
		default:
			files[clean] = true
		}
	}
	switch {
	case in > 1:
		return errors.New("standard input, -, can be one of --old, --new and --recording only")
	case out > 1 || out == 1 && c.output.Form == cli.AsJSON:
		return errors.New("standard output, -, can be one of --markdown, --sarif, --junit and -o json only")
	}
	return nil
}

// fromGit reads the specs of a range, and its rules.
func (c *checkCommand) fromGit(ctx context.Context, cmd *cobra.Command, in *check.Input) error {
	repository, err := check.OpenRepository(ctx, ".")
	if err != nil {
		return err
	}
	if in.Range, err = repository.Range(ctx, c.git); err != nil {
		return err
	}
	if c.rules != "" {
		in.Settings, err = readRules(cmd, c.rules)
	} else {
		in.Settings, err = repository.Settings(ctx, in.Range)
	}
	if err != nil {
		return err
	}
	in.Changes, err = repository.Changes(ctx, in.Range, in.Settings, c.options.Over)
	return err
}

// fromFiles reads the specs of files, and the rules of this folder.
func (c *checkCommand) fromFiles(cmd *cobra.Command, in *check.Input) (err error) {
	in.Settings = check.Defaults()
	name := c.rules
	if name == "" {
		name = check.RulesFile
		if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
			name = ""
		}
	}
	if name != "" {
		if in.Settings, err = readRules(cmd, name); err != nil {
			return err
		}
	}
	in.Changes = &check.Changes{Old: check.NewSide(c.options.Over), New: check.NewSide(c.options.Over)}
	var problems []error
	read := func(side *check.Side, names []string) {
		for _, name := range names {
			file, err := cli.Open(cmd, name)
			if err == nil {
				err = errors.Join(side.Read(name, file), file.Close())
			}
			problems = append(problems, err)
		}
	}
	read(in.Changes.Old, c.old)
	read(in.Changes.New, c.new)
	return errors.Join(problems...)
}

func readRules(cmd *cobra.Command, name string) (*check.Settings, error) {
	data, err := cli.ReadWithin(cmd, name, 2<<20)
	if err != nil {
		return nil, err
	}
	return check.ReadSettings(name, data)
}

// maxRecordings bounds the files of recordings.
const maxRecordings = 2000

// findRecordings names the files of the flags, or of the rules.
func (c *checkCommand) findRecordings(ctx context.Context, cmd *cobra.Command, in *check.Input) error {
	paths, from := c.recordings, "--recording"
	if len(paths) == 0 {
		paths, from = in.Settings.Recordings, "recordings, from where the command runs"
	}
	in.Recordings = in.Changes.Earlier(ctx, paths)
	named := make(map[string]bool)
	var names, links []string
	for _, path := range paths {
		if path == "-" {
			names = append(names, path)
			named[path] = true
			continue
		}
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) && len(in.Recordings) > 0 {
			continue // the change removes it
		}
		if err != nil {
			return fmt.Errorf("%s: %w", from, err)
		}
		if !info.IsDir() {
			names = append(names, path)
			named[path] = len(c.recordings) > 0
			continue
		}
		before := len(names)
		err = filepath.WalkDir(path, func(name string, at fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case at.IsDir() || !check.IsRecording(name):
			case at.Type().IsRegular():
				names = append(names, name)
			default:
				links = append(links, name)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("%s: %w", from, err)
		}
		slices.SortFunc(names[before:], check.OldestFirst)
		if len(names) == before {
			in.Notes = append(in.Notes, fmt.Sprintf("%s: the folder %s has no recordings (*.jsonl, *.jsonl.gz)", from, path))
		}
	}
	if len(names) > maxRecordings {
		return fmt.Errorf("%s: there are %d files, more than %d", from, len(names), maxRecordings)
	}
	var earlier, touched, others []string
	for _, r := range in.Recordings {
		earlier = append(earlier, r.Name)
	}
	for _, name := range names {
		if in.Changes.Touched(name) {
			touched = append(touched, name)
		} else {
			others = append(others, name)
		}
	}
	// What the change brings comes last: it adds to what is known, and replaces nothing.
	for _, name := range slices.Concat(others, touched) {
		in.Recordings = append(in.Recordings, check.Recording{Name: name, Named: named[name], Open: func() (io.ReadCloser, error) { return cli.Open(cmd, name) }})
	}
	for _, about := range []struct {
		text  string
		names []string
	}{
		{"recordings removed or altered by this very change, which count as they were before it", earlier},
		{"recordings added or altered by this very change, which add to those", touched},
		{"recordings that are no plain files, and not read", links},
	} {
		if len(about.names) > 0 {
			in.Notes = append(in.Notes, about.text+": "+check.Some(about.names))
		}
	}
	return nil
}

// write writes the report in all the forms that are asked for.
func (c *checkCommand) write(cmd *cobra.Command, report *check.Report) error {
	forms := []struct {
		name  string
		write func(io.Writer) error
	}{
		{c.markdown, report.WriteMarkdown},
		{c.sarif, func(w io.Writer) error { return report.WriteSARIF(w, cli.Version()) }},
		{c.junit, report.WriteJUnit},
	}
	text := report.WriteText
	if c.output.Form == cli.AsJSON {
		text = report.WriteJSON
	}
	for _, form := range forms {
		switch form.name {
		case "":
		case "-":
			text = form.write
		default:
			file, err := os.Create(form.name)
			if err != nil {
				return err
			}
			if err := errors.Join(form.write(file), file.Close()); err != nil {
				return err
			}
		}
	}
	return text(cmd.OutOrStdout())
}
