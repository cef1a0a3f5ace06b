package bots

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spatialcells/spatialcells/node/client"
	"github.com/spatialcells/spatialcells/node/gateway"
	"github.com/spatialcells/spatialcells/node/torus"
)

const maxLoad = 4 << 20 // bytes of one /load

// Scout logs in once to learn the grid of a world.
func Scout(ctx context.Context, gateways []string, key []byte, world string) (torus.Grid, error) {
	tokens := func(context.Context) (string, error) {
		claims := gateway.Claims{World: world, Name: "scout"}
		claims.Subject = strconv.FormatInt(time.Now().UnixMilli()<<16|0xffff, 10)
		return gateway.SignDevelopment(key, claims)
	}
	c, err := client.Dial(ctx, gateways, tokens, client.Options{Version: "scout"})
	if err != nil {
		return torus.Grid{}, fmt.Errorf("looking at world %s: %w", world, err)
	}
	var g torus.Grid
	c.Do(func(m *client.Model, _ uint64) { g = m.Grid })
	return g, c.Logout(ctx)
}

// Owners asks the nodes which regions they hold: /load of each address, host:port. It fails if a region has no owner among
// them.
func Owners(ctx context.Context, g torus.Grid, addresses []string) (func(region int) string, error) {
	owners := make([]string, g.Regions())
	for _, a := range addresses {
		if err := load(ctx, a, owners); err != nil {
			return nil, err
		}
	}
	for i, o := range owners {
		if o == "" {
			return nil, fmt.Errorf("region %v has no owner among the %d nodes asked", g.RegionAt(i), len(addresses))
		}
	}
	return func(region int) string { return owners[region] }, nil
}

func load(ctx context.Context, address string, owners []string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/load", nil)
	if err != nil {
		return fmt.Errorf("asking %s for its load: %w", address, err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("asking %s for its load: %w", address, err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("asking %s for its load: HTTP %s", address, res.Status)
	}
	return readLoad(io.LimitReader(res.Body, maxLoad), owners)
}

// readLoad takes the regions of one node.
func readLoad(r io.Reader, owners []string) error {
	var node struct {
		Session string `json:"session"`
		Regions []struct{ Region int }
	}
	if err := json.NewDecoder(r).Decode(&node); err != nil {
		return fmt.Errorf("reading the load of a node: %w", err)
	}
	for _, region := range node.Regions {
		if region.Region < 0 || region.Region >= len(owners) {
			return fmt.Errorf("reading the load of %s: region %d is beyond the grid", node.Session, region.Region)
		}
		owners[region.Region] = node.Session
	}
	return nil
}

// Siblings are the same hosts with another port.
func Siblings(addresses []string, port int) ([]string, error) {
	var list []string
	for _, a := range addresses {
		host, _, err := net.SplitHostPort(strings.TrimSuffix(strings.TrimPrefix(a, "ws://"), gateway.Path))
		if err != nil {
			return nil, fmt.Errorf("gateway %q: %w", a, err)
		}
		list = append(list, net.JoinHostPort(host, strconv.Itoa(port)))
	}
	if len(list) == 0 {
		return nil, errors.New("no gateways")
	}
	return list, nil
}
