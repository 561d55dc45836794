package cli

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"

	"github.com/spf13/cobra"
)

// A release's build sets these, as scripts/build.sh and .goreleaser.yaml do: -ldflags "-X
// github.com/setpoint-dev/setpoint/cmd/internal/cli.release=v1.2.3".
var (
	release string // v1.2.3
	commit  string // of git, whole
	date    string // of that commit, RFC 3339: the same source makes the same bytes
)

// Unknown replaces what the build does not know.
const Unknown = "unknown"

// Build describes a program's build.
type Build struct {
	// Version is the release (v1.2.3), or dev with the commit where the build knows it.
	Version string `json:"version"`
	// Commit of git, in full, with -dirty where the tree had changes; Unknown without git.
	Commit string `json:"commit"`
	// Date of the commit, RFC 3339; Unknown without git.
	Date string `json:"date"`
	// Go is the version of the compiler, as runtime.Version has it.
	Go string `json:"go"`
	// Platform is GOOS/GOARCH.
	Platform string `json:"platform"`
}

// Version is the release, or the best description of the source.
func Version() string { return ThisBuild().Version }

// ThisBuild describes the running program's build.
var ThisBuild = sync.OnceValue(func() Build {
	info, _ := debug.ReadBuildInfo()
	return buildOf(info, release, commit, date)
})

// buildOf prefers the values set by the build to those recorded by Go; info may be nil.
func buildOf(info *debug.BuildInfo, release, commit, date string) Build {
	b := Build{Version: release, Commit: commit, Date: date, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info == nil {
		info = &debug.BuildInfo{}
	}
	noted := map[string]string{}
	for _, s := range info.Settings {
		noted[s.Key] = s.Value
	}
	if b.Commit == "" && noted["vcs.revision"] != "" {
		b.Commit = noted["vcs.revision"]
		if noted["vcs.modified"] == "true" {
			b.Commit += "-dirty"
		}
		b.Date = noted["vcs.time"]
	}
	switch v := info.Main.Version; {
	case b.Version != "":
	case v != "" && v != "(devel)":
		b.Version = v
	case b.Commit != "":
		b.Version = "dev-" + b.Commit
	default:
		b.Version = "dev"
	}
	b.Commit = cmp.Or(b.Commit, Unknown)
	b.Date = cmp.Or(b.Date, Unknown)
	return b
}

// String is the text of --version after the program's name.
func (b Build) String() string {
	return fmt.Sprintf("%s (commit %s, %s) %s %s", b.Version, b.Commit, b.Date, b.Go, b.Platform)
}

// NewVersion returns the command that prints the version.
func NewVersion() *cobra.Command {
	output := NewOutputFlag(AsText, AsJSON)
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version, the commit and its date",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output.Form == AsJSON {
				return WriteValue(cmd.OutOrStdout(), AsJSON, ThisBuild())
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s version %s\n", cmd.Root().Name(), ThisBuild())
			return err
		},
	}
	cmd.Flags().VarP(output, "output", "o", "`form` of the output: text or json")
	return cmd
}
