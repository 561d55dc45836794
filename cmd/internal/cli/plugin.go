package cli

import (
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

// plugin is the name under which kubectl finds the program on the path, and runs it
// as `kubectl setpoint`.
const plugin = "kubectl-setpoint"

// CalledAs makes help and usage show the command as typed: as a kubectl plugin if the program
// runs under that name.
func CalledAs(root *cobra.Command, program string) *cobra.Command {
	name := strings.TrimSuffix(filepath.Base(program), ".exe")
	if name != plugin {
		return root
	}
	const typed = "kubectl setpoint"
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: typed}
	for _, cmd := range root.Commands() {
		for _, text := range []*string{&cmd.Long, &cmd.Example} {
			*text = strings.ReplaceAll(*text, "  setpoint agent kubernetes", "  "+typed+" agent")
			*text = strings.ReplaceAll(*text, "  setpoint ", "  "+typed+" ")
		}
	}
	return root
}
