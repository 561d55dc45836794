// Package agentcmd is what the programs of the platforms' agents have in common: settings of
// the loop and of the connection to the service, the admin address, the metric sources' file,
// what is kept across restarts, and the commands agent and status.
//
//	func main() {
//		cli.Main(cli.Root(&cobra.Command{Use: "setpoint-swarm", …},
//			append(agentcmd.New(program), cli.NewVersion())...))
//	}
//
// A platform brings a [Program]. The Kubernetes agent, whose queue and statuses are
// controller-runtime's and the cluster's, takes the parts that fit: [Settings], [Serve],
// [Pages] and [ReportFlags].
package agentcmd
