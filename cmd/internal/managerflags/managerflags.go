// Package managerflags accepts the autoscaler flags of kube-controller-manager under their own
// names.
package managerflags

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Flag is a flag of kube-controller-manager, of any version, accepted under its own name, as in
// a controller manager's manifest.
type Flag struct {
	// Name is the controller manager's.
	Name string
	// kind of its value: where the command has no such setting the value is looked at all
	// the same.
	kind kind
	// Serve and Agent are the settings of these commands that it stands for, "": it has no
	// effect there.
	Serve, Agent string
}

type kind int

const (
	durationFlag kind = iota
	numberFlag
	integerFlag
	switchFlag
)

// All are the controller manager's that concern its autoscaler, from v1.1 to
// v1.37. docs/reference/profiles.md has them in a table.
var All = []Flag{
	{"horizontal-pod-autoscaler-sync-period", durationFlag, "", "sync-period"},
	{"horizontal-pod-autoscaler-tolerance", numberFlag, "tolerance", ""},
	{"horizontal-pod-autoscaler-downscale-stabilization", durationFlag, "downscale-stabilization", ""},
	{"horizontal-pod-autoscaler-cpu-initialization-period", durationFlag, "cpu-initialization-period", ""},
	{"horizontal-pod-autoscaler-initial-readiness-delay", durationFlag, "initial-readiness-delay", ""},
	{"horizontal-pod-autoscaler-upscale-delay", durationFlag, "upscale-delay", ""},
	{"horizontal-pod-autoscaler-downscale-delay", durationFlag, "downscale-delay", ""},
	{"horizontal-pod-autoscaler-use-rest-clients", switchFlag, "", ""},
	{"concurrent-horizontal-pod-autoscaler-syncs", integerFlag, "", "workers"},
}

// The commands that accept the controller manager's flags.
const (
	Serve = "setpoint serve"
	Agent = "setpoint agent kubernetes"
)

// Setting returns the command's setting for the flag, "" for none.
func (f *Flag) Setting(command string) string {
	if command == Serve {
		return f.Serve
	}
	return f.Agent
}

// Bind makes a command accept the controller manager's flags on the command line: those with a
// setting are other names for it, and the last one on the command line wins. The others are
// accepted without effect, so that one list of flags works for both commands.
func Bind(flags *pflag.FlagSet, command string) {
	names := make(map[string]string)
	for i := range All {
		f := &All[i]
		if own := f.Setting(command); own != "" {
			names[f.Name] = own
			continue
		}
		const usage = "accepted for compatibility with kube-controller-manager; has no effect"
		switch f.kind {
		case durationFlag:
			flags.Duration(f.Name, 0, usage)
		case numberFlag:
			flags.Float64(f.Name, 0, usage)
		case integerFlag:
			flags.Int32(f.Name, 0, usage)
		case switchFlag:
			flags.Bool(f.Name, false, usage)
		}
		_ = flags.MarkHidden(f.Name)
	}
	before := flags.GetNormalizeFunc()
	flags.SetNormalizeFunc(func(set *pflag.FlagSet, name string) pflag.NormalizedName {
		if own, ok := names[name]; ok {
			name = own
		}
		return before(set, name)
	})
}

// WithoutEffect names the given flags of the controller manager that have no effect on the
// command, and the alternative.
func WithoutEffect(flags *pflag.FlagSet, command string) []string {
	var notes []string
	for i := range All {
		f := &All[i]
		if f.Setting(command) != "" || !flags.Changed(f.Name) {
			continue
		}
		note := "--" + f.Name + " has no effect here"
		switch {
		case f.Serve != "":
			note += ": it affects decisions; set it on " + Serve
		case f.Agent != "":
			note += ": it is a setting of the agent; set it on " + Agent
		default:
			note += ": metrics always come from the metrics APIs"
		}
		notes = append(notes, note)
	}
	return notes
}

// TellNotes prints notes for commands without a log.
func TellNotes(cmd *cobra.Command, notes []string) {
	for _, note := range notes {
		fmt.Fprintln(cmd.ErrOrStderr(), note)
	}
}
