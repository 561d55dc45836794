// Package cli has the common parts of the programs' command lines: exit codes, the user's
// errors, output formats, and the version.
package cli

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/setpoint-dev/setpoint/cmd/internal/config"
	"github.com/setpoint-dev/setpoint/internal/document"
	"github.com/setpoint-dev/setpoint/internal/printable"
	"github.com/setpoint-dev/setpoint/internal/spelling"
)

// Exit codes.
const (
	ExitFailed = 1 // it went wrong, or the answer is no
	ExitUsage  = 2 // invalid flags or input
	// ExitSettings is for refused settings of a command that also takes them from variables and a config file: starting it
	// again is of no use. It is EX_CONFIG of sysexits.h, and unlike 2 no exit code of a panic.
	ExitSettings = 78
	// ExitInterrupted is for a command that a signal ended before it had an answer, as shells number SIGINT: 1 would be one.
	ExitInterrupted = 130
)

// Main runs a program's command until it ends or a signal arrives, and exits. A second signal ends the process at once.
func Main(root *cobra.Command) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	err := interrupted(ctx, Execute(ctx, CalledAs(root, os.Args[0])))
	stop()
	if message := Failure(err); message != "" {
		fmt.Fprintln(os.Stderr, message)
	}
	os.Exit(ExitCode(err))
}

// interrupted is the error of a command, or the signal that ended its context if that is why it failed.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || status.Code(err) == codes.Canceled) {
		return interruptedError{context.Cause(ctx)}
	}
	return err
}

type interruptedError struct{ error }

// Execute runs a program's command. Cobra adds completion no sooner, because that keeps where it prints to, and would show
// its help for any shell that it does not know.
func Execute(ctx context.Context, root *cobra.Command) error {
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" {
			cmd.Args, cmd.RunE = UsageArgs(cmd.Args), help
		}
	}
	return root.ExecuteContext(ctx)
}

// Root completes a program's command and adds subcommands: without arguments it prints its
// help, and an invalid command line is the user's error.
func Root(root *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	root.SilenceUsage, root.SilenceErrors = true, true
	root.Version = ThisBuild().String() // has cobra add --version, which prints the line of the command version
	root.Args = cobra.NoArgs
	root.RunE = help
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if before := cmd.Flags().Args(); len(before) > 0 && cmd.HasAvailableSubCommands() { // a command's flag after its misspelled name
			if wrong := UsageArgs(cmd.Args)(cmd, before); wrong != nil {
				return wrong
			}
		}
		text := err.Error()
		if of := duration.FindStringSubmatch(text); of != nil {
			text = of[1] + "must be a duration such as 30s or 1h" + document.WithUnit(of[2])
		} else if of := parsed.FindStringSubmatch(text); of != nil {
			text = of[1] + "must be " + kinds[of[2]]
			if of[3] == strconv.ErrRange.Error() {
				text = of[1] + "is out of range"
			}
		}
		if name, is := strings.CutPrefix(text, "unknown flag: --"); is {
			var names []string
			cmd.Flags().VisitAll(func(f *pflag.Flag) {
				if !f.Hidden {
					names = append(names, f.Name)
				}
			})
			if guess, ok := spelling.Closest(name, names); ok {
				text += "; did you mean --" + guess + "?"
			}
		}
		return badLine(cmd, errors.New(text+"; see "+cmd.CommandPath()+" --help"))
	})
	root.SetUsageFunc(usage(root.UsageFunc()))
	root.AddCommand(append(commands, newMan())...)
	strict(root)
	completing(root)
	root.InitDefaultHelpCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "help" {
			cmd.Long = "Show the help of the command that the arguments name." // cobra's has the program's name before CalledAs
			cmd.Args = func(_ *cobra.Command, args []string) error {
				if of, rest, _ := root.Find(args); of.HasAvailableSubCommands() { // all commands have Args, without which alone it fails
					return of.Args(of, rest)
				}
				return nil
			}
		}
	}
	return root
}

// duration finds the value in Go's error about one that is no duration.
var duration = regexp.MustCompile(`^(.*)time: .*duration "(.*)"$`)

// parsed finds the kind in Go's error about a value that is none of that kind, and the reason; kinds has the kinds' words.
var (
	parsed = regexp.MustCompile(`^(.*)strconv\.Parse(Bool|Float|Int): parsing ".*": (.*)$`)
	kinds  = map[string]string{"Bool": "true or false", "Float": "a number", "Int": "a whole number"}
)

func help(cmd *cobra.Command, _ []string) error { return cmd.Help() }

// strict has wrong arguments, and flags that exclude each other, be the user's error, in words, in all commands. Cobra looks at
// the latter later, and finds nothing then. A command that only has others prints its help.
func strict(cmd *cobra.Command) {
	for _, below := range cmd.Commands() {
		strict(below)
	}
	if !cmd.Runnable() {
		cmd.Args, cmd.RunE = cobra.NoArgs, help
	}
	args := UsageArgs(cmd.Args)
	cmd.Args = func(cmd *cobra.Command, given []string) error {
		if err := args(cmd, given); err != nil {
			return badLine(cmd, err)
		}
		err := cmd.ValidateFlagGroups()
		if err == nil {
			return nil
		}
		text := err.Error()
		if set := excluding.FindStringSubmatch(text); set != nil {
			text = "--" + strings.Join(strings.Fields(set[1]), " and --") + " exclude each other"
		}
		return badLine(cmd, errors.New(text+"; see "+cmd.CommandPath()+" --help"))
	}
}

// excluding finds the flags in cobra's error about those that exclude each other.
var excluding = regexp.MustCompile(`none of the others can be; \[(.*)\] were all set$`)

// usage is cobra's, with the flags in their groups.
func usage(plain func(*cobra.Command) error) func(*cobra.Command) error {
	return func(cmd *cobra.Command) error {
		var text strings.Builder
		out := cmd.OutOrStderr()
		cmd.SetOut(&text)
		err := plain(cmd)
		cmd.SetOut(out)
		flags := cmd.LocalFlags()
		grouped := ""
		for _, group := range config.Grouped(flags, "Flags") {
			grouped += "\n" + group.Title + ":\n" + group.Flags.FlagUsages()
		}
		_, written := io.WriteString(out, strings.Replace(text.String(), "\nFlags:\n"+strings.TrimRight(flags.FlagUsages(), " \n"), strings.TrimRight(grouped, " \n"), 1))
		return errors.Join(err, written)
	}
}

// Group puts those of a program's commands that it has under a title of its help.
func Group(root *cobra.Command, title string, names ...string) {
	for _, cmd := range root.Commands() {
		if slices.Contains(names, cmd.Name()) {
			if !root.ContainsGroup(title) {
				root.AddGroup(&cobra.Group{ID: title, Title: title + ":"})
			}
			cmd.GroupID = title
		}
	}
}

// UsageArgs marks errors about arguments as the user's, and adds the correct usage.
func UsageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if check == nil {
			return nil
		}
		err := check(cmd, args)
		switch {
		case err == nil:
			return nil
		case cmd.HasAvailableSubCommands() && len(args) > 0:
			text := fmt.Sprintf("unknown command %q", args[0])
			cmd.SuggestionsMinimumDistance = 2
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				text += "; did you mean " + strings.Join(near, " or ") + "?"
			}
			return BadInput(errors.New(text + "; see " + cmd.CommandPath() + " --help"))
		case strings.Contains(err.Error(), "arg(s)"): // cobra's text does not name the command
			given := "an argument is missing"
			if len(args) > 0 {
				given = fmt.Sprintf("wrong number of arguments (%d)", len(args))
			}
			err = errors.New(given + "; usage: " + cmd.UseLine())
		case len(args) > 0 && strings.HasPrefix(err.Error(), "unknown command"): // cobra's, of a command without commands
			err = fmt.Errorf("unexpected argument %q; see %s --help", args[0], cmd.CommandPath())
		}
		return BadInput(err)
	}
}

// Open opens a file that the user named; "-" is standard input, once.
func Open(cmd *cobra.Command, name string) (io.ReadCloser, error) {
	if name == "-" {
		in := cmd.InOrStdin()
		cmd.SetIn(spent{})
		return until(cmd.Context(), in), nil
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, BadInput(err)
	}
	return file, nil
}

// until reads what in has, until the context ends: at a terminal a read may never end by itself.
func until(ctx context.Context, in io.Reader) io.ReadCloser {
	read, write := io.Pipe()
	stop := context.AfterFunc(ctx, func() { _ = write.CloseWithError(ctx.Err()) })
	go func() {
		_, err := io.Copy(write, in)
		stop()
		_ = write.CloseWithError(err)
	}()
	return read
}

// spent is standard input that a command has opened.
type spent struct{}

func (spent) Read([]byte) (int, error) {
	return 0, errors.New("- is standard input, which is given twice: name a file in place of one of them")
}

// ReadWithin reads a file that must not be larger.
func ReadWithin(cmd *cobra.Command, name string, most int64) ([]byte, error) {
	file, err := Open(cmd, name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	var from io.Reader = file
	if strings.HasSuffix(name, ".gz") {
		if from, err = gzip.NewReader(file); err != nil {
			return nil, BadInput(fmt.Errorf("%s: %w", name, err))
		}
	}
	data, err := io.ReadAll(io.LimitReader(from, most+1))
	switch {
	case err != nil:
		return nil, BadInput(fmt.Errorf("%s: %w", name, err))
	case int64(len(data)) > most:
		return nil, BadInput(fmt.Errorf("%s: larger than %d bytes", name, most))
	}
	return data, nil
}

// inputError is an error in the user's input.
type inputError struct{ error }

func (e inputError) Unwrap() error { return e.error }

// BadInput marks an error as the user's; nil stays nil.
func BadInput(err error) error {
	if err == nil {
		return nil
	}
	return inputError{err}
}

// settingsError is an error in settings.
type settingsError struct{ error }

func (e settingsError) Unwrap() error { return e.error }

// BadSettings marks an error as one of flags, variables or a config file; nil stays nil.
func BadSettings(err error) error {
	if err == nil {
		return nil
	}
	return settingsError{err}
}

// badLine marks an error of a command line.
func badLine(cmd *cobra.Command, err error) error {
	if config.Applies(cmd.Flags()) {
		return BadSettings(err)
	}
	return BadInput(err)
}

// lacking is an error of a method that a server lacks, with the versions of its instances.
type lacking struct {
	error
	versions []string
}

func (l lacking) Unwrap() error { return l.error }

// Lacking adds a server's versions to the error of a method that it lacks; none: they are not known.
func Lacking(err error, versions []string) error { return lacking{err, versions} }

// ErrQuiet ends with an exit code but no message, because the output has said it all.
var ErrQuiet = errors.New("")

// ExitCode is the exit code for an error.
func ExitCode(err error) int {
	var (
		input    inputError
		settings settingsError
		signaled interruptedError
	)
	switch {
	case err == nil:
		return 0
	case errors.As(err, &signaled):
		return ExitInterrupted
	case errors.As(err, &settings):
		return ExitSettings
	case errors.As(err, &input), status.Code(err) == codes.InvalidArgument:
		return ExitUsage
	}
	return ExitFailed
}

// Failure returns the message of an error; empty for none.
func Failure(err error) string {
	if err == nil || errors.Is(err, ErrQuiet) {
		return ""
	}
	return "setpoint: " + Text(err)
}

// Text is the message of an error without the program's name.
func Text(err error) string {
	return printable.NoCommand(printable.Block(strings.TrimPrefix(describe(err), "setpoint: ")))
}

// describe prints an error for a person: of a status all violations, a line each.
func describe(err error) string {
	s, ok := status.FromError(err)
	if !ok {
		return err.Error()
	}
	text, violations := s.Message(), ""
	for _, detail := range s.Details() {
		if bad, ok := detail.(*errdetails.BadRequest); ok {
			for _, v := range bad.GetFieldViolations() {
				violations += "\n  " + v.GetField() + ": " + v.GetDescription()
			}
		}
	}
	var call interface {
		error
		GRPCStatus() *status.Status
	}
	whole := func(text string) string { return text }
	if errors.As(err, &call) { // what wraps it has its code in its text
		text = call.GRPCStatus().Message()
		whole = func(text string) string { return strings.Replace(err.Error(), call.Error(), text, 1) }
	}
	if violations != "" {
		return whole("invalid request:" + violations)
	}
	if reason := unreached.FindStringSubmatch(text); reason != nil && s.Code() == codes.Unavailable {
		text = "the server can't be reached: " + reason[1]
		if strings.HasPrefix(reason[1], "dial ") {
			text += ": does it run there? --server says where it is"
		}
	} else if text == noAddress {
		text = "the server can't be reached: the name or the port of --server can't be looked up, or has no address"
	} else if s.Code() == codes.Unimplemented && otherVersion.MatchString(text) {
		text += "; this program is " + Version()
		if lacks := (lacking{}); errors.As(err, &lacks) && len(lacks.versions) > 0 {
			text += ", the server " + strings.Join(lacks.versions, " and ")
		} else {
			text += "; the server may be older, which its metric setpoint_build_info and Operations on its page tell, or no Setpoint"
		}
	}
	return whole(text) + " (" + s.Code().String() + ")"
}

// noAddress is what gRPC says of a name of which it found nothing.
const noAddress = "no children to pick from"

// otherVersion matches what servers that lack a method say, as opposed to one whose settings or port have no use for it.
var otherVersion = regexp.MustCompile(`unknown (service|method)|HTTP status`)

// unreached is how gRPC wraps the reason why it has no connection.
var unreached = regexp.MustCompile(`^connection error: desc = "(?:transport: (?:Error while dialing: )?|error reading server preface: (?:.*use of closed network connection: )?)(.*)"$`)
