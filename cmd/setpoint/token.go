package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/server/auth"
)

func newToken() *cobra.Command {
	var description string
	var lifetime time.Duration
	cmd := &cobra.Command{
		Use:   "token IDENTITY",
		Short: "Make a bearer token, and its entry for the tokens file",
		Long: `Make a bearer token. The command prints the token on standard output and keeps no copy.
The entry for the file of tokens (serve --auth-tokens-file), which holds only a hash of
the token, goes to standard error.

The policy file knows the caller as token:IDENTITY.`,
		Example: `  setpoint token agent-shop >token.txt 2>entry.yaml
  (echo tokens:; cat entry.yaml) >tokens.yaml           # the first entry
  setpoint token agent-web >token-web.txt 2>>tokens.yaml`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			token, entry, err := auth.GenerateToken(args[0])
			if err != nil {
				return cli.BadInput(err)
			}
			if lifetime < 0 {
				return cli.BadInput(fmt.Errorf("--lifetime: %s is negative", lifetime))
			}
			if lifetime > 0 {
				entry.Expires = time.Now().Add(lifetime).UTC().Truncate(time.Second)
			}
			entry.Description = description
			if _, err := fmt.Fprintln(cmd.OutOrStdout(), token); err != nil {
				return err
			}
			_, err = fmt.Fprint(cmd.ErrOrStderr(), entry.YAML())
			return err
		},
	}
	cmd.Flags().StringVar(&description, "description", "", "`text` to keep with the entry")
	cmd.Flags().DurationVar(&lifetime, "lifetime", 0, "time until the token expires; 0 means never")
	return cmd
}
