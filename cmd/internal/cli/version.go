package cli

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"

	"github.com/spf13/cobra"
)

// What a release's build sets, as scripts/build.sh and .goreleaser.yaml do:
// -ldflags "-X github.com/setpoint-dev/setpoint/cmd/internal/cli.release=v1.2.3".
var (
	release string // v1.2.3
	commit  string // of git, whole
	date    string // of that commit, as RFC 3339 has it: the same source makes the same bytes
)

// Unknown stands for what the build was not told.
const Unknown = "unknown"

// Build says what a program was built from.
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

// Version is the release, or what the build knows of its source.
func Version() string { return ThisBuild().Version }

// ThisBuild says what the running program was built from.
var ThisBuild = sync.OnceValue(func() Build {
	info, _ := debug.ReadBuildInfo()
	return buildOf(info, release, commit, date)
})

// buildOf prefers what the build was told to what Go noted of the source; info may be nil.
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
	if b.Commit == "" {
		b.Commit = Unknown
	}
	if b.Date == "" {
		b.Date = Unknown
	}
	return b
}

// String is what --version prints after the program's name.
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
				encoder := json.NewEncoder(cmd.OutOrStdout())
				encoder.SetIndent("", "  ")
				return encoder.Encode(ThisBuild())
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s version %s\n", cmd.Root().Name(), ThisBuild())
			return err
		},
	}
	cmd.Flags().VarP(output, "output", "o", "`form` of the output: text or json")
	return cmd
}
