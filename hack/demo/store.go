package main

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
	"github.com/spatialcells/spatialcells/node/store/connect"
)

const (
	// recordsPattern matches the keys of entities' records, see node/store/README.md.
	recordsPattern = "{e:*}"
	// maxRecords bounds what is read of a store, in keys.
	maxRecords = 100_000
	// storePatience bounds one round trip to the store.
	storePatience = 5 * time.Second
)

// records lists the keys of all entities that the World's store holds.
func (s *site) records(ctx context.Context) (map[string]bool, error) {
	store, err := s.openStore(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = store.Close() }()
	found := map[string]bool{}
	for cursor := uint64(0); ; {
		keys, next, err := store.Scan(ctx, cursor, recordsPattern, 1000).Result()
		if err != nil {
			return nil, fmt.Errorf("reading the records of the store: %w", err)
		}
		for _, key := range keys {
			found[key] = true
		}
		if cursor = next; cursor == 0 || len(found) > maxRecords {
			return found, nil
		}
	}
}

// lostRecords says how many records the store had and has no more.
func (s *site) lostRecords(ctx context.Context, had map[string]bool) []string {
	has, err := s.records(ctx)
	if err != nil {
		return []string{oneLine(err.Error())}
	}
	lost := 0
	for key := range had {
		if !has[key] {
			lost++
		}
	}
	if lost == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%d of %d records of the store are lost; does `kubectl get wld` say DevelopmentStore? Then install valkey-server or redis-server", lost, len(had))}
}

// openStore makes a client of the managed store.
func (s *site) openStore(ctx context.Context) (redis.UniversalClient, error) {
	c, err := s.storeConfig(ctx)
	if err != nil {
		return nil, err
	}
	opts, err := c.Options()
	if err != nil {
		return nil, err
	}
	return redis.NewUniversalClient(opts), nil
}

// inspectStore asks the managed store what it is; an error if it does not serve.
func (s *site) inspectStore(ctx context.Context) (connect.Report, error) {
	c, err := s.storeConfig(ctx)
	if err != nil {
		return connect.Report{}, err
	}
	r, err := connect.Inspect(ctx, c)
	if err == nil && r.Loading {
		err = connect.ErrLoading
	}
	return r, err
}

// storeConfig says where the managed store is, with the password that the operator made.
func (s *site) storeConfig(ctx context.Context) (connect.Config, error) {
	key := client.ObjectKey{Namespace: s.key.Namespace, Name: v1alpha1.StoreName(s.key.Name)}
	service, secret := &corev1.Service{}, &corev1.Secret{}
	if err := s.api.Get(ctx, key, service); err != nil {
		return connect.Config{}, fmt.Errorf("finding the store: %w", err)
	}
	if err := s.api.Get(ctx, key, secret); err != nil {
		return connect.Config{}, fmt.Errorf("reading the password of the store: %w", err)
	}
	return connect.Config{
		URL: "redis://" + net.JoinHostPort(service.Spec.ClusterIP, "6379"), Timeout: storePatience,
		Credentials: func() (connect.Credentials, error) {
			return connect.Credentials{Password: string(secret.Data[v1alpha1.PasswordKey])}, nil
		},
	}, nil
}
