package config

import (
	"errors"

	"github.com/spf13/pflag"
)

// fileFlag is the flag that names the config file.
const fileFlag = "config"

// AddFlag adds the flag --config, which names the config file. Without it Apply
// reads no file.
func AddFlag(flags *pflag.FlagSet) {
	flags.String(fileFlag, "", "config `file` (YAML or JSON) with flag names as keys; command line and environment take precedence")
}

// checkFlag is the flag that looks at the settings only.
const checkFlag = "check"

// AddCheck adds the flag --check, which is not a setting: only the command line can set it.
func AddCheck(flags *pflag.FlagSet, check *bool) {
	flags.BoolVar(check, checkFlag, false, "check the settings and the files they name, print them with secrets masked, and exit")
}

// Apply sets the flags that were not given on the command line, which must have been parsed,
// from environ (as os.Environ returns it) and the config file. A flag that has been set is
// Changed; values of weaker sources are then ignored.
//
// Variables that begin with SETPOINT_ and belong to no flag are errors, except OfClients and
// those of files and programs of this repository, which are there for others, and those that Kubernetes and Docker set
// for a service that happens to be named setpoint.
//
// The error joins all problems of all sources, each a line that names its place: the variable,
// or file, line and key. Some flags may be set even so.
func Apply(flags *pflag.FlagSet, environ []string) error {
	// The stronger source comes first, because it may set the file's name.
	problems := applyEnvironment(flags, environ)
	if file := flags.Lookup(fileFlag); file != nil && file.Value.String() != "" {
		problems = append(problems, applyFile(flags, file.Value.String())...)
	}
	return errors.Join(problems...)
}

// isSetting tells a setting from a flag of the command line only, such as those that cobra adds.
func isSetting(flag *pflag.Flag) bool {
	return flag.Name != "help" && flag.Name != "version" && flag.Name != checkFlag
}

// settings returns the flags that are settings, by name.
func settings(flags *pflag.FlagSet) []*pflag.Flag {
	var found []*pflag.Flag
	flags.VisitAll(func(flag *pflag.Flag) {
		if isSetting(flag) {
			found = append(found, flag)
		}
	})
	return found
}
