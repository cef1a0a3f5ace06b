package ground

// Surface is what a metre of ground is made of. The numbers are part of the payload format.
type Surface uint8

// Surfaces; 0 is none.
const (
	SeaBed   Surface = 1 // below more water than one can wade through
	Shallows Surface = 2
	Sand     Surface = 3
	Grass    Surface = 4
	Forest   Surface = 5 // forest floor
	DryGrass Surface = 6
	Mud      Surface = 7
	Moss     Surface = 8
	Rock     Surface = 9
	Snow     Surface = 10

	// LastSurface is the highest number in use.
	LastSurface = Snow
)

// String names the surface.
func (s Surface) String() string {
	names := [...]string{
		"none", "sea bed", "shallows", "sand", "grass", "forest", "dry grass", "mud", "moss", "rock", "snow",
	}
	if int(s) < len(names) {
		return names[s]
	}
	return "unknown"
}

// Biome is what grows and lives somewhere.
type Biome uint8

// Biomes.
const (
	Ocean Biome = iota + 1
	Coast
	Grassland
	Woodland
	Savanna
	Desert
	Swamp
	Tundra
	Mountain
	Peak
)

// String names the biome.
func (b Biome) String() string {
	names := [...]string{
		"none", "ocean", "coast", "grassland", "woodland", "savanna", "desert", "swamp", "tundra", "mountain", "peak",
	}
	if int(b) < len(names) {
		return names[b]
	}
	return "unknown"
}

// biome decides by height, roughness, warmth and moisture.
func (f *fields) biome(x, y int, height int16) Biome {
	px, py := f.x0+int64(x), f.y0+int64(y)
	wet, warm, rough := f.moisture.at(px, py), f.warmth.at(px, py), f.rough.at(px, py)
	// A hundred metres up it is colder; in small worlds, where all is lower, sooner.
	warm -= float64(height) / (250 * f.scale)
	switch {
	case height < -WadingDepth:
		return Ocean
	case height <= 1:
		return Coast
	case rough > 0.4 && warm < -0.45:
		return Peak
	case rough > 0.55:
		return Mountain
	case warm < -0.4:
		return Tundra
	case wet > 0.28 && height <= 6:
		return Swamp
	case wet > 0.05:
		return Woodland
	case warm > 0.15 && wet < -0.3:
		return Desert
	case warm > 0.05 && wet < -0.08:
		return Savanna
	}
	return Grassland
}

// surfaceOf is the surface of level ground in a biome.
var surfaceOf = [...]Surface{
	Ocean: SeaBed, Coast: Sand, Grassland: Grass, Woodland: Forest, Savanna: DryGrass, Desert: Sand, Swamp: Mud,
	Tundra: Moss, Mountain: Rock, Peak: Snow,
}

// column puts a metre together; around is its slope.
func (f *fields) column(x, y int, height int16, around int) Column {
	c := Column{Height: height, Walkable: height >= -WadingDepth && around <= MaxStep}
	switch {
	case height < 0 && height >= -WadingDepth:
		c.Surface = Shallows
	case around > MaxStep && height >= 0:
		c.Surface = Rock
	default:
		c.Surface = surfaceOf[f.biome(x, y, height)]
	}
	return c
}
