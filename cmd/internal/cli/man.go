package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/setpoint-dev/setpoint/cmd/internal/config"
)

// newMan returns the command that writes the manual's pages, one for each command: the same texts
// as of --help. Packages and archives have them.
func newMan() *cobra.Command {
	markdown := false
	cmd := &cobra.Command{
		Use: "man {FOLDER|--markdown}", Short: "Write the manual's pages into a folder", Hidden: true, Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case markdown && len(args) == 0:
				_, err := fmt.Fprint(cmd.OutOrStdout(), Reference(cmd.Root()))
				return err
			case !markdown && len(args) == 1:
				return WriteMan(args[0], cmd.Root())
			}
			return BadInput(errors.New("name a folder, or use --markdown"))
		},
	}
	cmd.Flags().BoolVar(&markdown, "markdown", false, "print all of it as one page of the documentation")
	return cmd
}

// WriteMan writes a page of section 1 for the command and each below it that help lists, into a
// folder that exists: setpoint-serve.1 for setpoint serve.
func WriteMan(folder string, cmd *cobra.Command) error {
	cmd.InitDefaultHelpFlag()
	cmd.InitDefaultVersionFlag()
	if err := os.WriteFile(filepath.Join(folder, manName(cmd)+".1"), []byte(manPage(cmd)), 0o644); err != nil {
		return BadInput(err)
	}
	if cmd.Name() == "completion" {
		return nil // one page for all shells
	}
	for _, below := range cmd.Commands() {
		if hasPage(below) {
			if err := WriteMan(folder, below); err != nil {
				return err
			}
		}
	}
	return nil
}

// hasPage reports whether a command is in the manual. One that passes its flags to another program has no text of its own.
func hasPage(cmd *cobra.Command) bool {
	return cmd.IsAvailableCommand() && !cmd.IsAdditionalHelpTopicCommand() && !cmd.DisableFlagParsing
}

// manName is how the manual calls a command.
func manName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// manPage is the page of a command, for man(7).
func manPage(cmd *cobra.Command) string {
	var b strings.Builder
	build := ThisBuild()
	day, _, _ := strings.Cut(build.Date, "T")
	fmt.Fprintf(&b, ".TH %q 1 %q %q \"Setpoint\"\n", strings.ToUpper(manName(cmd)), day, "setpoint "+build.Version)
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(manName(cmd)), roff(cmd.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n", roff(cmd.UseLine()))
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, ".br\n.B %s\n.I command\n", roff(cmd.CommandPath()))
	}
	if cmd.Long != "" {
		b.WriteString(".SH DESCRIPTION\n" + roffBlocks(cmd.Long))
	}
	roffFlags(&b, "OPTIONS", cmd.NonInheritedFlags())
	roffFlags(&b, "OPTIONS OF ALL COMMANDS", cmd.InheritedFlags())
	if cmd.HasAvailableSubCommands() {
		b.WriteString(".SH COMMANDS\n")
		for _, below := range cmd.Commands() {
			if below.IsAvailableCommand() {
				fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roff(below.Name()), roff(below.Short))
			}
		}
	}
	if cmd.Example != "" {
		fmt.Fprintf(&b, ".SH EXAMPLES\n.nf\n%s\n.fi\n", roffLines(strings.Trim(cmd.Example, "\n")))
	}
	if cmd.HasParent() {
		fmt.Fprintf(&b, ".SH SEE ALSO\n.BR %s (1)\n", roff(manName(cmd.Parent())))
	}
	return b.String()
}

// roffFlags writes a section of flags, or nothing without flags.
func roffFlags(b *strings.Builder, title string, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	fmt.Fprintf(b, ".SH %s\n", title)
	groups := config.Grouped(flags, "Other")
	for _, group := range groups {
		if len(groups) > 1 {
			fmt.Fprintf(b, ".SS %s\n", roff(group.Title))
		}
		group.Flags.VisitAll(func(flag *pflag.Flag) { roffFlag(b, flag) })
	}
}

// namesOf are a flag's names with its kind of value, and its usage. between is around the comma.
func namesOf(flag *pflag.Flag, between string) (names, usage string) {
	names = "--" + flag.Name
	if flag.Shorthand != "" && flag.ShorthandDeprecated == "" {
		names = "-" + flag.Shorthand + between + ", " + between + names
	}
	value, usage := pflag.UnquoteUsage(flag)
	if value != "" {
		names += " " + value
	}
	return names, usage
}

func roffFlag(b *strings.Builder, flag *pflag.Flag) {
	names, usage := namesOf(flag, "")
	switch flag.DefValue {
	case "", "false", "0", "0s", "[]":
	default:
		usage += " (default " + flag.DefValue + ")"
	}
	fmt.Fprintf(b, ".TP\n.B %s\n%s\n", roff(names), roff(strings.Join(strings.Fields(usage), " ")))
}

// roffBlocks is text in paragraphs; lines that are indented stay as they are.
func roffBlocks(text string) string {
	var b strings.Builder
	for i, paragraph := range strings.Split(strings.Trim(text, "\n"), "\n\n") {
		if i > 0 {
			b.WriteString(".PP\n")
		}
		if strings.Contains("\n"+paragraph, "\n  ") {
			b.WriteString(".nf\n" + roffLines(paragraph) + "\n.fi\n")
		} else {
			b.WriteString(roffLines(paragraph) + "\n")
		}
	}
	return b.String()
}

// roffLines escapes each line.
func roffLines(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = roff(line)
	}
	return strings.Join(lines, "\n")
}

// roff escapes a line: it contains no request, and its hyphens can be copied.
func roff(line string) string {
	line = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(line)
	if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
		line = `\&` + line
	}
	return line
}
