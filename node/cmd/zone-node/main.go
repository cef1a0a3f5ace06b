package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9/logging"

	"github.com/spatialcells/spatialcells/node/gateway"
	"github.com/spatialcells/spatialcells/node/store"
	"github.com/spatialcells/spatialcells/node/store/connect"
)

func main() {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	slog.SetDefault(log)
	logging.Disable() // what the store's client says by itself is in our own lines
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := dispatch(ctx, log, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		log.Error("zone-node ends", "error", err)
		os.Exit(exitCode(err))
	}
}

// commands is what people see who do not know them.
const commands = `zone-node is a node of a World, and the tools for its store and its players.

  zone-node [flags]        simulate; the operator gives the flags, see zone-node -help
  zone-node token          print a development token for a player
  zone-node audit          prove that each item in a store is in one place
  zone-node export         write the world in a store to a file
  zone-node import         write such a file to an empty store
  zone-node store          run a store for development, which keeps nothing

Each tells its flags by -help.
`

// errNoCommand: there is nothing to do.
var errNoCommand = errors.New("nothing was done")

func dispatch(ctx context.Context, log *slog.Logger, args []string) error {
	if len(args) == 0 && os.Getenv("ZONE_WORLD") == "" {
		fmt.Fprint(os.Stderr, commands)
		return fmt.Errorf("%w: name a command", errNoCommand)
	}
	if len(args) > 0 {
		switch args[0] {
		case "help", "-h", "--h", "-help", "--help":
			fmt.Fprint(os.Stderr, commands, "\n")
			args[0] = "-help"
		case "store":
			return serveStore(ctx, args[1:])
		case "token":
			return printToken(args[1:])
		case "audit", "export", "import":
			return wholeStore(ctx, log, os.Stdout, args)
		default:
			if !strings.HasPrefix(args[0], "-") {
				fmt.Fprint(os.Stderr, commands)
				return fmt.Errorf("%w: %q is no command", errNoCommand, args[0])
			}
		}
	}
	cfg, err := parse(args)
	if err != nil {
		return err
	}
	return run(ctx, log, cfg)
}

func serveStore(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("zone-node store", flag.ContinueOnError)
	port := fs.Int("listen-port", 6379, "port to listen on")
	password := fs.String("password-file", "", "file with the password; empty: none")
	if err := fs.Parse(args); err != nil {
		return err
	}
	secret, err := connect.ReadSecret("password", *password)
	if err != nil {
		return err
	}
	return store.Serve(ctx, os.Getenv("LISTEN_HOST"), *port, secret)
}

func printToken(args []string) error {
	fs := flag.NewFlagSet("zone-node token", flag.ContinueOnError)
	key := fs.String("key-file", "", "file with the HS256 key (the World's <name>-token-keys Secret)")
	world := fs.String("world", "", "name of the World")
	account := fs.Uint64("account", 0, "account number, above 0")
	name := fs.String("name", "", "name to show to others")
	spawn := fs.String("spawn", "", "x,y in metres where a new master appears")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if *key == "" || *world == "" || *account == 0 {
		return errors.New("token: -key-file, -world and -account are needed")
	}
	secret, err := os.ReadFile(*key)
	if err != nil {
		return fmt.Errorf("reading the token key: %w", err)
	}
	claims := gateway.Claims{World: *world, Name: *name, Spawn: *spawn}
	claims.Subject = strconv.FormatUint(*account, 10)
	token, err := gateway.SignDevelopment(secret, claims)
	if err != nil {
		return err
	}
	fmt.Println(token)
	return nil
}
