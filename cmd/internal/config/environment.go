package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/setpoint-dev/setpoint/internal/spelling"
)

// prefix begins the name of every variable.
const prefix = "SETPOINT_"

// Variable is the name of a flag's environment variable: SETPOINT_GRPC_ADDRESS
// for grpc-address. A setting with Setting.OfProgram has another, see VariableOf.
func Variable(flag string) string {
	return prefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// VariableOf is the name of a flag's environment variable, empty if the flag is no setting.
func VariableOf(flag *pflag.Flag) string {
	if !isSetting(flag) {
		return ""
	}
	if program := flag.Annotations[programKey]; len(program) > 0 {
		return Variable(program[0] + "-" + flag.Name)
	}
	return Variable(flag.Name)
}

// applyEnvironment sets the flags that are not set yet from their variables. Of
// two entries for one variable the first counts, as it does for os.Getenv.
func applyEnvironment(flags *pflag.FlagSet, environ []string) (problems []error) {
	byVariable, elsewhere := map[string]*pflag.Flag{}, map[string]string{}
	for _, flag := range settings(flags) {
		byVariable[VariableOf(flag)] = flag
		elsewhere[Variable(flag.Name)] = VariableOf(flag)
	}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		switch flag := byVariable[name]; {
		case !strings.HasPrefix(name, prefix):
		case flag != nil:
			if err := setText(flags, flag, value); err != nil {
				problems = append(problems, fmt.Errorf("%s: %w", name, err))
			}
		case slices.Contains(OfClients, name) || slices.Contains(others, name) || isServiceLink(name, value):
		case elsewhere[name] != "":
			problems = append(problems, fmt.Errorf("%s: is a setting of other programs, did you mean %s?", name, elsewhere[name]))
		default:
			problems = append(problems, unknownVariable(name, byVariable))
		}
	}
	return problems
}

// unknownVariable is the error of a variable that belongs to no flag.
func unknownVariable(name string, known map[string]*pflag.Flag) error {
	// The prefix is alike in all; with it everything would look closer than it is.
	var names []string
	for variable := range known {
		names = append(names, strings.TrimPrefix(variable, prefix))
	}
	slices.Sort(names) // of two names as close, always the same is the guess
	if guess, ok := spelling.Closest(strings.TrimPrefix(name, prefix), names); ok {
		return fmt.Errorf("%s: no such setting, did you mean %s?", name, prefix+guess)
	}
	return fmt.Errorf("%s: no such setting", name)
}

// OfClients are the variables of commands that call a server once: its addresses, the file of a
// token, and that of authorities. An operator's shell may have exported them, so a program
// without these settings starts nevertheless.
var OfClients = []string{Variable("server"), Variable("token-file"), Variable("tls-ca-file")}

// others are variables of the files in deploy/, of the programs in docs/start/queue.md and examples/, and of scripts/, which the
// shell that starts a program may have exported.
var others = []string{
	"SETPOINT_IMAGE", "SETPOINT_CLUSTER", "SETPOINT_DOCKER_SOCKET", "SETPOINT_SECRETS", "SETPOINT_REST", "SETPOINT_GRPC", "SETPOINT_CHECK_IMAGE",
	"SETPOINT_URL", "SETPOINT_TOKEN", "SETPOINT_CACHE",
}

// serviceVariable matches the names, and servicePort the values of those named
// …_PORT, that containers get for each service: for one named setpoint-redis
// SETPOINT_REDIS_SERVICE_HOST=10.0.0.7, SETPOINT_REDIS_PORT=tcp://10.0.0.7:6379,
// SETPOINT_REDIS_PORT_6379_TCP_ADDR=10.0.0.7 and so on.
var (
	serviceVariable = regexp.MustCompile(`^SETPOINT_(.+_)?(SERVICE_HOST|SERVICE_PORT(_.+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)
	servicePort     = regexp.MustCompile(`^(tcp|udp|sctp)://`)
)

// isServiceLink reports whether Kubernetes or Docker sets such a variable for a service whose
// name begins with "setpoint". A flag named port or …-port would conflict with it; avoid such
// names.
func isServiceLink(name, value string) bool {
	return serviceVariable.MatchString(name) || strings.HasSuffix(name, "_PORT") && servicePort.MatchString(value)
}
