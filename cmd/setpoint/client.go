package main

import (
	"os"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// serverVariable gives the client commands' --server.
const serverVariable = "SETPOINT_SERVER"

// clientVariables are those of the client commands, which serve lets be.
var clientVariables = []string{serverVariable}

// maxAnswerBytes bounds an answer: an explanation of many pods is large.
const maxAnswerBytes = 256 << 20

// addServerFlag adds --server. Without a fallback the command can do without.
func addServerFlag(cmd *cobra.Command, fallback, usage string) *string {
	if address := os.Getenv(serverVariable); address != "" {
		fallback = address
	}
	return cmd.PersistentFlags().String("server", fallback, "gRPC `host:port` of "+usage+" ("+serverVariable+")")
}

// dial connects to a server; nothing is sent before the first call.
func dial(address string) (*grpc.ClientConn, error) {
	conn, err := grpc.NewClient(address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswerBytes)),
	)
	return conn, badInput(err)
}
