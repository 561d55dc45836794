// Package config binds one set of flags to three sources. A setting is a flag; its value is the
// first of
//
//  1. the command line: --grpc-address=:9090
//  2. the environment: SETPOINT_GRPC_ADDRESS=:9090
//  3. the config file, YAML or JSON: grpc-address: ":9090"
//  4. the flag's default
//
// The settings themselves live in a plain struct of the command, whose fields the flags point
// to:
//
//	flags.StringVar(&settings.GRPCAddress, "grpc-address", ":9090", "address to serve gRPC on")
//	config.AddFlag(flags) // --config, the file
//	… // parse the command line
//	err := config.Apply(flags, os.Environ())
//
// A list from one source replaces a list from another; they are never joined. A misspelt
// variable or key is an error, as is a value of the wrong type. The package also renders the
// settings for people, see Describe and Example. It knows no setting by name, leaves the
// validation of values to their flags, and does not watch the file.
package config
