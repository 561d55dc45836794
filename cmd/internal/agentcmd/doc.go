// Package agentcmd is shared by the programs of all platforms' agents: settings of the loop and
// of the connection to the service, the admin address, the file of metric sources, state across
// restarts, and the commands agent and status.
//
//	func main() {
//		cli.Main(cli.Root(&cobra.Command{Use: "setpoint-swarm", …},
//			append(agentcmd.New(program), cli.NewVersion())...))
//	}
//
// A platform provides a [Program].
package agentcmd
