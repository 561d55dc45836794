package config

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/setpoint-dev/setpoint/internal/printable"
)

// List is a command's settings, in the order of its help.
type List []Group

// Group is settings under one title; without a title they are listed with a command's other flags.
type Group struct {
	Title    string
	Settings []Setting
}

// Setting is one setting: a flag, and with it a variable and a key of the config file.
type Setting struct {
	name, program string
	bind          func(flags *pflag.FlagSet)
	check         func(refuse Refuse)
}

// The kinds of settings. Each takes where the value goes, with its default; the flag's name; its
// meaning; and bounds, which Check asks. Repeated is a list whose flag is given once per element,
// Strings one whose elements are separated by commas.
var (
	Bool     = kind((*pflag.FlagSet).BoolVar)
	String   = kind((*pflag.FlagSet).StringVar)
	Strings  = kind((*pflag.FlagSet).StringSliceVar)
	Repeated = kind((*pflag.FlagSet).StringArrayVar)
	Int      = kind((*pflag.FlagSet).IntVar)
	Int64    = kind((*pflag.FlagSet).Int64Var)
	Float32  = kind((*pflag.FlagSet).Float32Var)
	Float64  = kind((*pflag.FlagSet).Float64Var)
	Duration = kind((*pflag.FlagSet).DurationVar)
)

func kind[T any](bind func(*pflag.FlagSet, *T, string, T, string)) func(at *T, name, usage string, bounds ...func(T) error) Setting {
	return func(at *T, name, usage string, bounds ...func(T) error) Setting {
		return Setting{
			name: name,
			bind: func(flags *pflag.FlagSet) { bind(flags, at, name, *at, usage) },
			check: func(refuse Refuse) {
				for _, bound := range bounds {
					if err := bound(*at); err != nil {
						refuse(name, "%v", err)
					}
				}
			},
		}
	}
}

// The annotations of a flag: the title of its group, and the program that its variable names.
const groupKey, programKey = "setpoint-group", "setpoint-program"

// OfProgram gives a setting a variable that names its program, SETPOINT_SERVE_TLS_CERT_FILE for
// tls-cert-file of serve: for a flag that means something else in another program, so that nobody
// gives one's value to the other.
func (s Setting) OfProgram(program string) Setting {
	s.program = program
	return s
}

// Bind adds a flag for each setting.
func (l List) Bind(flags *pflag.FlagSet) {
	flags.SortFlags = false
	for _, group := range l {
		for _, setting := range group.Settings {
			setting.bind(flags)
			for key, value := range map[string]string{groupKey: group.Title, programKey: setting.program} {
				if value != "" {
					_ = flags.SetAnnotation(setting.name, key, []string{value})
				}
			}
		}
	}
}

// Check refuses values out of bounds.
func (l List) Check(refuse Refuse) {
	for _, group := range l {
		for _, setting := range group.Settings {
			setting.check(refuse)
		}
	}
}

// FlagGroup is flags under one title.
type FlagGroup struct {
	Title string
	Flags *pflag.FlagSet
}

// Grouped returns the flags that help shows by groups, in order. Those of none come last, with the
// given title.
func Grouped(flags *pflag.FlagSet, rest string) []FlagGroup {
	groups := []FlagGroup{{rest, pflag.NewFlagSet("", pflag.ContinueOnError)}}
	flags.VisitAll(func(flag *pflag.Flag) {
		if flag.Hidden || flag.Deprecated != "" {
			return
		}
		title := rest
		if of := flag.Annotations[groupKey]; len(of) > 0 {
			title = of[0]
		}
		i := slices.IndexFunc(groups, func(g FlagGroup) bool { return g.Title == title })
		if i < 0 {
			i = len(groups)
			groups = append(groups, FlagGroup{title, pflag.NewFlagSet("", pflag.ContinueOnError)})
			groups[i].Flags.SortFlags = false
		}
		groups[i].Flags.AddFlag(flag)
	})
	if groups[0].Flags.HasFlags() {
		groups = append(groups, groups[0])
	}
	return groups[1:]
}

// Refuse adds a problem of a flag, named without its dashes.
type Refuse func(flag, format string, args ...any)

// Problems collects the problems of flags.
type Problems []error

// Refuse adds a problem.
func (p *Problems) Refuse(flag, format string, args ...any) {
	*p = append(*p, fmt.Errorf("--"+flag+": "+format, args...))
}

// Err joins all problems, by flags; nil without any.
func (p *Problems) Err() error {
	slices.SortStableFunc(*p, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(*p...)
}

// WithoutEffect are notes on flags with another value than their default, which has an effect only with another flag.
func WithoutEffect(flags *pflag.FlagSet, without string, names ...string) (notes []string) {
	for _, name := range names {
		if flag := flags.Lookup(name); flag.Changed && flag.Value.String() != flag.DefValue {
			notes = append(notes, "--"+name+" has no effect without --"+without)
		}
	}
	return notes
}

// Required is the bound of a text that must be given.
func Required(text string) error {
	if text == "" {
		return errors.New("is required")
	}
	return nil
}

// AddressOrNone is the bound of an address to listen on, which may be empty.
func AddressOrNone(address string) error {
	if address == "" {
		return nil
	}
	return Address(address)
}

// Address is the bound of an address to listen on: host:port, or :port.
func Address(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%q is not host:port, such as 127.0.0.1:9090, or :9090 for all interfaces", address)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("%q: the port must be a number from 0 to 65535", address)
	}
	if host != "" && net.ParseIP(host) == nil && !isHostName(host) {
		return fmt.Errorf("%q: %q is neither an IP address nor the name of a host", address, host)
	}
	return nil
}

// isHostName reports whether a name is a valid host name, whether or not the host exists.
func isHostName(name string) bool {
	for _, c := range []byte(name) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '-', c == '_', c == '%', c == ':':
		default:
			return false
		}
	}
	return true
}

type number interface {
	~int | ~int64 | ~float32 | ~float64
}

// Positive is the bound of what must be above 0.
func Positive[N number](n N) error {
	if n > 0 {
		return nil
	}
	return fmt.Errorf("%v is not above 0", n)
}

// NotNegative is the bound of what must be 0 or above.
func NotNegative[N number](n N) error {
	if n >= 0 {
		return nil
	}
	return fmt.Errorf("%v is negative", n)
}

// Within bounds a value on both sides.
func Within[N cmp.Ordered](low, high N) func(N) error {
	return func(n N) error {
		if low <= n && n <= high {
			return nil
		}
		return fmt.Errorf("%v is not from %s to %s", n, short(low), short(high))
	}
}

// short is a number, or a duration as people write it.
func short(n any) string {
	if d, ok := n.(time.Duration); ok {
		return printable.Duration(d)
	}
	return fmt.Sprint(n)
}

// OneOf bounds a text to choices.
func OneOf[T ~string](choices ...T) func(string) error {
	return func(text string) error {
		if slices.Contains(choices, T(text)) {
			return nil
		}
		names := make([]string, len(choices))
		for i, choice := range choices {
			names[i] = string(choice)
		}
		return fmt.Errorf("%q is not one of %s", text, strings.Join(names, ", "))
	}
}
