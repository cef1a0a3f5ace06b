# Both images of Spatial Cells:
#   docker build --target operator  -t spatialcells/operator:dev .
#   docker build --target zone-node -t spatialcells/zone-node:dev .
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY api api
COPY controllers controllers
COPY node node
RUN CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o /out/ ./controllers/cmd/operator ./node/cmd/zone-node

FROM scratch AS operator
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/operator /operator
USER 65532:65532
ENTRYPOINT ["/operator"]

FROM scratch AS zone-node
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/zone-node /zone-node
USER 65532:65532
ENTRYPOINT ["/zone-node"]
