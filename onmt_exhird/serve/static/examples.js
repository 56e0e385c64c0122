// Texts to try, written for this page.

export const EXAMPLES = [
  {
    name: "Bee hives",
    text: `Listening to the hive: acoustic monitoring of honey bee colonies with low-cost sensors
Beekeepers open their hives to see whether a colony is about to swarm, and disturb it each time. We place a small microphone and a temperature sensor under the lid and learn from sound alone in which state a colony is. A recurrent neural network reads the spectrogram of one minute of sound and tells a queenless colony from a healthy one, and announces swarming up to two days ahead. Trained on recordings of forty hives over three summers, the network is small enough for a microcontroller that runs on a solar cell. In a field study with twelve beekeepers, acoustic monitoring halved the number of inspections, and no swarm was lost. We publish the recordings and the design of the sensor.`,
  },
  {
    name: "Bus timetables",
    text: `Robust timetables for rural bus networks by stochastic optimization
Where buses are few, a missed connection costs an hour. Timetables are usually planned as if every bus kept its time, so that small delays spread through the network. We formulate timetabling as a two-stage stochastic program in which the planned times are chosen before, and the waiting decisions after the delays are known. As the number of delay scenarios makes the integer program too large to solve directly, we use Benders decomposition and a heuristic that fixes the times of lines far from any transfer. On the networks of three counties the timetables keep 94 percent of all connections, against 81 percent for those in use, without an additional bus. Passengers wait four minutes longer on average for a connection that they can rely on.`,
  },
  {
    name: "Old maps",
    text: `Reading place names off historical maps with weak supervision
Libraries hold millions of scanned maps that cannot be searched, since the names on them curve along rivers, cross other names and are set in lettering that optical character recognition was never made for. Annotating them by hand is slow. We train a text detector for historical maps with weak supervision: today's gazetteers tell which names should stand roughly where, and a matching step that tolerates old spellings turns them into uncertain labels. A graph neural network then joins single letters into names. With no hand-made annotation for training, the detector finds 78 percent of the names on maps of the eighteenth century, as many as a supervised one that has seen two hundred annotated sheets. Linking the names to a gazetteer lets readers search a map collection by place and follow how a name has changed.`,
  },
];
